"""What the objects of a build define and use, as nm tells: for the lints that follow calls from file to file."""
import os
import re
import subprocess


def nm(path, *options):
    """(member, type, symbol) of every global symbol of an archive or program."""
    listing = subprocess.run(["nm", "-A", *options, path], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        match = re.match(r"(?:[^:]*:)?([^:]*):[0-9a-f ]* (\w) (\S+)$", line)
        if match:
            yield match.groups()


def sources_of(root):
    """By the name of its object: the source below `root`, as meson names objects of one target."""
    names = {}
    for path, _, files in os.walk(root):
        for name in files:
            if name.endswith(".c"):
                source = os.path.join(path, name)
                names[os.path.relpath(source, root).replace("/", "_") + ".o"] = source
    return names


def archive(path, root):
    """({symbol: source}, {source: symbols that it uses}); what no source below `root` made is left out."""
    names, owner, uses = sources_of(root), {}, {}
    for member, kind, symbol in nm(path, "-g"):
        source = names.get(os.path.basename(member))
        if source and kind == "U":
            uses.setdefault(source, set()).add(symbol)
        elif source:
            owner[symbol] = source
    return owner, uses


def calls(path, root):
    """{source: {source that it uses: symbols}} within an archive."""
    owner, uses = archive(path, root)
    found = {}
    for source, symbols in uses.items():
        for symbol in symbols:
            if symbol in owner and owner[symbol] != source:
                found.setdefault(source, {}).setdefault(owner[symbol], set()).add(symbol)
    return found
