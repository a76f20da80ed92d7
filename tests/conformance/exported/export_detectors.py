"""Detectors of torchvision as torch.onnx writes them, with random weights of few channels and a picture of any size.

    /usr/bin/python3 export_detectors.py FOLDER

Needs Debian's python3-torch, python3-torchvision and python3-onnx (torch 1.13.1, torchvision 0.14.1); the files beside
this one were made with them. `ssd` has one stage: TopK of each class, then NonMaxSuppression. `rcnn` has two: proposals,
NonMaxSuppression, RoiAlign of what is left, and NonMaxSuppression of each class.
"""

import gzip
import os
import sys
import tempfile
from collections import OrderedDict

import torch
from torch import nn
from torchvision.models.detection.anchor_utils import AnchorGenerator, DefaultBoxGenerator
from torchvision.models.detection.faster_rcnn import FasterRCNN, FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.ssd import SSD, SSDHead
from torchvision.ops import MultiScaleRoIAlign

CHANNELS, CLASSES, SIZE, OPSET = 16, 4, (64, 80), 13


def trunk():
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, CHANNELS, 3, 2, 1),
        nn.ReLU6(),
        nn.Conv2d(CHANNELS, CHANNELS, 3, 2, 1),
        nn.ReLU(),
    )
    layers.out_channels = CHANNELS
    return layers


class Levels(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine, self.coarse = trunk(), nn.Conv2d(CHANNELS, CHANNELS, 3, 2, 1)

    def forward(self, x):
        fine = self.fine(x)
        return OrderedDict([("0", fine), ("1", torch.relu(self.coarse(fine)))])


def ssd():
    boxes = DefaultBoxGenerator([[2], [2]])
    head = SSDHead([CHANNELS] * 2, boxes.num_anchors_per_location(), CLASSES)
    limits = {"topk_candidates": 40, "detections_per_img": 10, "score_thresh": 0.01}
    return SSD(Levels(), boxes, (64, 64), CLASSES, head=head, **limits)


def rcnn():
    return FasterRCNN(
        trunk(),
        min_size=64,
        max_size=96,
        rpn_anchor_generator=AnchorGenerator(((16, 32),), ((0.5, 1.0, 2.0),)),
        rpn_pre_nms_top_n_test=50,
        rpn_post_nms_top_n_test=20,
        box_roi_pool=MultiScaleRoIAlign(["0"], 4, 2),
        box_head=TwoMLPHead(CHANNELS * 4 * 4, 32),
        box_predictor=FastRCNNPredictor(32, CLASSES),
        box_detections_per_img=10,
        box_score_thresh=0.01,
    )


def export(name, model, folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "model.onnx")
        axes = {"image": {1: "height", 2: "width"}}
        picture = [torch.rand(3, *SIZE)]
        torch.onnx.export(model.eval(), (picture,), path, opset_version=OPSET, input_names=["image"], dynamic_axes=axes)
        with open(path, "rb") as file, open(os.path.join(folder, name + ".onnx.gz"), "wb") as out:
            out.write(gzip.compress(file.read(), 9, mtime=0))


for which in (ssd, rcnn):
    torch.manual_seed(1)
    export(which.__name__, which(), sys.argv[1])
