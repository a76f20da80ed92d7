"""Turns text files into C arrays: embed_texts.py FILE... OUT; calibrate.py becomes `const char text_calibrate_py[]`."""
import os
import re
import sys


def literal(line):
    return '    "' + line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") + '\\n"\n'


def main():
    *names, out = sys.argv[1:]
    with open(out, "w", encoding="ascii") as file:
        file.write('#include "cli.h"\n')
        for name in names:
            with open(name, encoding="ascii") as text:
                lines = text.read().splitlines()
            file.write(f"\nconst char text_{re.sub('[^a-z]', '_', os.path.basename(name))}[] =\n")
            file.writelines(literal(line) for line in lines)
            file.write("    ;\n")


if __name__ == "__main__":
    main()
