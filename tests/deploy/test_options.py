"""Names that the files of deploy/ and the documents use are names that the daemon knows."""
import json
import os
import re
import unittest

import common

# What the chart sets itself, from values of its own.
OF_THE_CHART = {"config", "listen", "admin-listen", "data", "tokens", "tls-certificate", "tls-key", "tls-client-ca", "store",
                "store-password-file", "shutdown-delay", "drain"}  # fmt: skip


def files():
    for folder, _, names in os.walk(common.DEPLOY):
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), common.TOP)
    yield from ("Dockerfile", "README.md", "SECURITY.md")


class Options(unittest.TestCase):
    def test_variables(self):
        known = {common.variable(name) for name in common.options()}
        self.assertIn("SHARDPLAND_LISTEN", known)
        used = set()
        for path in files():
            found = set(re.findall(r"\bSHARDPLAND_[A-Z_]*[A-Z]\b", common.text_of(path)))
            with self.subTest(path):
                self.assertEqual(set(), found - known)
            used |= found
        self.assertGreater(len(used), 10)

    def test_flags(self):
        """Flags that alerts and documents advise."""
        shown = common.run(common.PROGRAM, "--help").stdout
        known = set(re.findall(r"--[a-z-]+", shown))
        for path in files():
            if path.startswith(("deploy/prometheus", "deploy/systemd", "deploy/README", "deploy/helm")):
                text = common.text_of(path)
                advised = re.findall(r"\((--[a-z-]+)\)|Set (--[a-z-]+)|shardpland (--[a-z-]+)", text)
                for flag in {one for several in advised for one in several if one}:
                    with self.subTest(path):
                        self.assertIn(flag, known)

    def test_chart(self):
        """The chart passes on every option that it does not set itself, and no other."""
        schema = json.loads(common.text_of("deploy/helm/shardplan/values.schema.json"))
        self.assertEqual(common.options() - OF_THE_CHART, set(schema["properties"]["options"]["properties"]))
        pod = common.text_of("deploy/helm/shardplan/templates/_pod.tpl")
        self.assertEqual({common.variable(name) for name in OF_THE_CHART - {"config"}},
                         set(re.findall(r"name: (SHARDPLAND_[A-Z_]+)$", pod, re.M)))  # fmt: skip

    def test_units_and_image_are_understood(self):
        """The daemon takes the variables as the image and the unit have them: names, units of time, addresses."""
        image = dict(re.findall(r"^    (?:ENV )?(SHARDPLAND_\w+)=(\S+)", common.text_of("Dockerfile"), re.M))
        unit = dict(re.findall(r"^Environment=(SHARDPLAND_\w+)=(\S+)", common.text_of("deploy/systemd/shardpland.service"), re.M))
        for given in (image, unit):
            self.assertGreater(len(given), 3)
            given = {name: value.replace("%S", "/var/lib").replace("%E", "/etc") for name, value in given.items()}
            shown = common.run(common.PROGRAM, "--print-config", env={**os.environ, **given})
            self.assertEqual(0, shown.returncode, shown.stdout)
            for name, value in given.items():
                option = name.removeprefix("SHARDPLAND_").lower().replace("_", "-")
                self.assertRegex(shown.stdout, rf"(?m)^{option} = \S+ +# .*environment|{option} = \S+ +# .*{name}")


if __name__ == "__main__":
    unittest.main()
