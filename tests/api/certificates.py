"""Certificates for tests, made by the openssl program: authorities, servers, clients."""

import os
import subprocess


def run(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Authority:
    """Files in `folder`: NAME.pem and NAME.key; this authority's own are ca.pem and ca.key."""

    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.name = name
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            f"/CN={name}", "-keyout", self.path(name, "key"), "-out", self.path(name))

    def path(self, name, kind="pem"):
        return os.path.join(self.folder, f"{name}.{kind}")

    def make(self, name, subject=None, purpose="serverAuth", days=1, rsa=False):
        """A key and a certificate for 127.0.0.1 that this authority signs; the paths of both."""
        extensions = self.path(name, "ext")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName = IP:127.0.0.1\nextendedKeyUsage = {purpose}\nbasicConstraints = CA:FALSE\n")
        kind = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        run("req", "-newkey", *kind, "-nodes", "-subj", subject or f"/CN={name}", "-keyout", self.path(name, "key"),
            "-out", self.path(name, "csr"))
        run("x509", "-req", "-in", self.path(name, "csr"), "-CA", self.path(self.name), "-CAkey",
            self.path(self.name, "key"), "-CAcreateserial", "-days", str(days), "-extfile", extensions, "-out", self.path(name))
        return self.path(name), self.path(name, "key")
