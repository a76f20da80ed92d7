"""deploy/compose: what Compose makes of the files, and that each container has no more than it needs."""
import os
import re
import unittest

import common
import yaml

FOLDER = os.path.join(common.DEPLOY, "compose")
FILES = ("compose.yaml", "compose.postgres.yaml", "compose.s3.yaml")


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = {name: yaml.safe_load(common.text_of(FOLDER, name)) for name in FILES}
        cls.services = {}
        for file in cls.files.values():
            for name, service in file["services"].items():
                cls.services.setdefault(name, {}).update(service)

    def test_containers_are_closed(self):
        self.assertEqual({"shardplan", "postgres", "prometheus", "grafana"}, set(self.services))
        for name, service in self.services.items():
            with self.subTest(name):
                self.assertIs(True, service["read_only"])
                self.assertEqual(["ALL"], service["cap_drop"])
                self.assertEqual(["no-new-privileges:true"], service["security_opt"])
                self.assertNotIn("privileged", service)
                for port in service.get("ports", []):
                    self.assertRegex(port, r"^\$\{[A-Z_]+:-127\.0\.0\.1:\d+\}:\d+$")  # nobody else, unless asked

    def test_no_secret_is_written_down(self):
        for name, service in self.services.items():
            for key, value in service.get("environment", {}).items():
                if re.search("PASSWORD|TOKEN|KEY|CREDENTIALS", key):
                    self.assertTrue(value.startswith("/run/secrets/"), (name, key))
                    self.assertIn(value.removeprefix("/run/secrets/"), {secret for file in self.files.values() for secret in file["secrets"]})
        self.assertIn("secrets/", common.text_of(FOLDER, ".gitignore"))

    def test_mounted_files_are_there(self):
        for service in self.services.values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    self.assertTrue(os.path.exists(os.path.join(FOLDER, source)), source)
                else:
                    self.assertIn(source, {one for file in self.files.values() for one in file.get("volumes", ())})

    def test_stopping(self):
        daemon = self.services["shardplan"]
        takes = int(self.files["compose.yaml"]["services"]["shardplan"]["environment"]["SHARDPLAND_DRAIN"])
        self.assertGreaterEqual(int(daemon["stop_grace_period"].rstrip("s")), takes + 15)

    def test_prometheus_finds_the_daemons(self):
        scraped = yaml.safe_load(common.text_of("deploy/prometheus/prometheus.yaml"))["scrape_configs"][0]["dns_sd_configs"][0]
        self.assertIn(scraped["names"][0], self.services)
        admin = re.search(r"SHARDPLAND_ADMIN_LISTEN=0\.0\.0\.0:(\d+)", common.text_of("Dockerfile"))[1]
        self.assertEqual(int(admin), scraped["port"])
        shared = set(self.files["compose.yaml"]["services"]["shardplan"]["networks"])
        self.assertTrue(shared & set(self.services["prometheus"]["networks"]))

    def test_compose_takes_them(self):
        docker_compose = common.tool("docker-compose")
        if docker_compose is None:
            self.skipTest("docker-compose is not installed")
        for names in (FILES[:1], FILES):
            flags = [word for name in names for word in ("-f", name)]
            done = common.run(docker_compose, *flags, "--profile", "monitoring", "config", cwd=FOLDER)
            self.assertEqual(0, done.returncode, done.stdout)
            made = yaml.safe_load(done.stdout)["services"]["shardplan"]
            self.assertEqual("shardplan", made["image"])
            self.assertEqual(len(names) == 2, "SHARDPLAND_STORE" in made["environment"])
            self.assertEqual(["127.0.0.1:8080:8080/tcp"], made["ports"])


if __name__ == "__main__":
    unittest.main()
