"""What a program of ours is linked with: its libraries, and the Debian packages that they come from."""
import os
import re
import subprocess


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ, LC_ALL="C")).stdout


def needed(path):
    """The names of the libraries that a file itself asks for."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--dynamic", "--wide", path))


def closure(*programs):
    """{name: path} of every library that the loader maps for the programs, and of the loader."""
    found = {}
    for program in programs:
        for line in output("ldd", program).splitlines():
            match = re.match(r"\s*(\S+) => (/\S+)", line) or re.match(r"\s*(/\S+()) \(", line)
            if match:
                path = match[2] or match[1]
                found[os.path.basename(match[1])] = path
            elif "not found" in line:
                raise SystemExit(f"{program}: {line.strip()}")
    return found


def owners(mapped):
    """{name: package} for what closure() found. dpkg knows a path as it was packed: with or without /usr."""
    ways = {}
    for name, path in mapped.items():
        real = os.path.realpath(path)
        for way in (path, real, real.removeprefix("/usr"), "/usr" + path):
            ways[way] = name
    command = ["dpkg-query", "--search", *ways]  # fails when one way is unknown, and names the others
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = {}
    for line in answer.splitlines():
        packages, path = line.split(": ", 1)
        if path in ways:
            found[ways[path]] = packages.split(",")[0].split(":")[0]
    for name, path in mapped.items():
        if name not in found:
            raise SystemExit(f"no package has {path}")
    return found


def describe(package):
    """The fields of a package that others ask for."""
    names = ["Package", "Version", "Architecture", "Maintainer", "Homepage", "source:Package", "source:Version"]
    values = output("dpkg-query", "--show", "--showformat", "".join(f"${{{name}}}\n" for name in names), package)
    return dict(zip(names, values.split("\n")))


def status_paragraph(package):
    """What dpkg knows about an installed package, as it is written in its status file."""
    return output("dpkg-query", "--status", package)


def listed(section, path=os.path.join(os.path.dirname(os.path.abspath(__file__)), "packages")):
    """The packages of a section of deploy/packages."""
    found, here = [], False
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line.startswith("["):
                here = line == f"[{section}]"
            elif line and here:
                found.append(line)
    return found
