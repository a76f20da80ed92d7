#!/usr/bin/env python3
"""api/devices/fit: its search finds parameters that are known, and the files of measured devices hold what it fits.

The measured tables are in ../shared/data; without them only the search and the form of the files are tried."""

import glob
import importlib.machinery
import importlib.util
import os
import random
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICES = os.path.join(TOP, "api/devices")
DATA = os.path.join(os.environ.get("SHARDPLAN_TEST_DATA", os.path.join(TOP, "../shared/data")), "measured")
sys.path.insert(0, DEVICES)

from fitting import files, forms, minimise, tables  # noqa: E402

loader = importlib.machinery.SourceFileLoader("device_fit", os.path.join(DEVICES, "fit"))
fit = importlib.util.module_from_spec(importlib.util.spec_from_loader("device_fit", loader))
loader.exec_module(fit)

# Median absolute errors on shapes that were held back, at most: what was asked of the fits.
AIMS = {("products", "bfloat16"): 0.16, ("attention", "prefill"): 0.18, ("attention", "decode"): 0.22,
        ("collectives", "nccl", "all_reduce"): 0.15, ("collectives", "nccl", "all_gather"): 0.20}


class Search(unittest.TestCase):
    def test_it_finds_the_parameters_of_noisy_rows(self):
        chance = random.Random(7)
        known = {"product": ((4e-6, 0.6, 0.8), forms.product, forms.PRODUCT_START, forms.PRODUCT_BOUNDS),
                 "decode": ((9e-6, 0.7, 150.0), forms.decode, forms.DECODE_START, forms.DECODE_BOUNDS)}
        for name, (values, form, start, bounds) in known.items():
            rows = []
            for _ in range(600):
                features = [10 ** chance.uniform(-7, -3), 10 ** chance.uniform(-7, -3)]
                if name == "decode":
                    features = [1e-8, 10 ** chance.uniform(-9, -6), float(chance.randint(1, 2000))]
                rows.append((features, form(values, features) * chance.uniform(0.9, 1.1)))
            for found, sought in zip(minimise.fit(form, start, bounds, rows), values):
                self.assertLess(abs(found / sought - 1), 0.06, f"{name}: {found} instead of {sought}")

    def test_a_third_of_the_shapes_is_held_back(self):
        held = sum(minimise.is_held((m, n, k)) for m in range(20) for n in range(20) for k in range(20))
        self.assertLess(abs(held / 8000 - 1 / 3), 0.02)

    def test_quantiles_lie_between_neighbours(self):
        self.assertEqual([minimise.quantile([1, 2, 3, 5], share) for share in (0, 0.5, 1)], [1, 2.5, 5])
        self.assertEqual(minimise.coverage([0.5, 0.9, 1.0, 1.2], 0.9, 1.1), 0.5)
        # Of 19 values a further one is below the first in 1 of 20 cases; of fewer, the first is all there is.
        self.assertEqual(minimise.next_quantile(list(range(19)), 0.05), 0)
        self.assertEqual(minimise.next_quantile(list(range(39)), 0.95), 37)
        self.assertEqual(minimise.next_quantile([1, 2, 3], 0.95), 3)


class Files(unittest.TestCase):
    def test_writing_keeps_what_was_read(self):
        for path in glob.glob(os.path.join(DEVICES, "*.json")):
            document = files.read(path)
            with tempfile.TemporaryDirectory() as folder:
                copy = os.path.join(folder, "copy.json")
                files.write(copy, document)
                self.assertEqual(files.read(copy), document, path)


@unittest.skipUnless(os.path.isdir(DATA), "no ../shared/data")
class Measured(unittest.TestCase):
    """One device: the others are fitted alike."""

    @classmethod
    def setUpClass(cls):
        cls.path = os.path.join(DEVICES, "h100-sxm-80gb.json")
        cls.document = files.read(cls.path)
        question = DATA, tables.TABLE_NAMES["h100-sxm-80gb"], fit.data_sheet(cls.document)
        cls.classes = fit.fit_device(*question)
        cls.eager = fit.eager_ratios(*question, cls.classes)

    def test_the_file_holds_what_is_fitted(self):
        self.assertEqual(fit.merge(self.document, fit.device_members(self.classes, self.eager)), self.document)

    def test_errors_on_held_shapes(self):
        for key, aim in AIMS.items():
            self.assertLessEqual(minimise.describe(self.classes[key].ratios)["median_error"], aim, key)

    def test_residuals_cover_nine_of_ten_held_rows(self):
        residuals, ratios = fit.residual_members(self.classes), {}
        for key, one in self.classes.items():
            ratios.setdefault(fit.class_name(key), []).extend(one.ratios)
        for name, values in ratios.items():
            span = residuals[name]
            covered = minimise.coverage(values, float(span["low"]), float(span["high"]))
            self.assertTrue(0.85 <= covered <= 0.97, f"{name}: {covered}")


if __name__ == "__main__":
    unittest.main()
