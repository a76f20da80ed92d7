#!/usr/bin/env python3
"""make_corpus.py: writes tests/fuzz/corpus: small models (onnx) and shardings (op_sharding, hlo, onnx_spec, ort_spec,
shardy), saved recipes and indexes of plans, that together use every part of their format.

Bytes are put down in the notation of tests/unit/support/onnx_files.h: a field's number, then `:7` a varint, `'abc'` text, `h0aff`
bytes, `~1.5` a float, `{...}` a message; `*100` repeats. The written files are checked in; run this after a change.
"""
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tools"))
from onnx_make import varint  # noqa: E402
from indexes import INDEXES  # noqa: E402

TOKEN = re.compile(r"\s*(?:(\d+)(?::(-?\d+)|'([^']*)'|h([0-9a-f]*)|~(-?[0-9.]+)|(\{))|(\}))(?:\*(\d+))?")

RELU = "1:8 8{2:17} 7{2'g' 11{1'x' 2{1{1:1 2{1{2'n'} 1{1:4}}}}} 1{1'x' 2'y' 4'Relu'} 12{1'y'}}"

CORPUS = {
    "relu": RELU,
    "all-model-fields": "1:14 2'p' 3'v' 4'd' 5:1 6'doc' 8{1'' 2:21} 8{1'ai.onnx.ml' 2:3} 14{1'k' 2'v'} 20{1{2'i'} 2{1{2'y' "
                        "4'R'}} 3{1'a' 2'b'}} 26{1'c' 2:2 3'a' 3'b'} 7{2'g' 10'doc' 16{1'k' 2'v'} 14{1't' 2{1'S' 2's'}}}",
    "ir3-initializer-input": "1:3 8{2:9} 7{2'g' 11{1'x'} 11{1'w'} 5{8'w' 2:1 1:2 9h0000803f00000040} 1{1'x' 1'w' 2'y' "
                             "4'Add'} 12{1'y'}}",
    "typed-tensors": "1:8 7{2'g' 5{8'a' 2:1 1:2 4~1 4~2} 5{8'b' 2:6 1:1 5:-1} 5{8'c' 2:7 1h0201 7h0102} 5{8'd' 2:11 "
                     "10h000000000000f03f} 5{8'e' 2:13 1:1 11:7} 5{8'f' 2:8 1:2 6'p' 6'q'} 5{8'h' 2:22 1:3 5:33 5:3} "
                     "5{8'i' 2:10 1:1 5:15360} 5{8'j' 2:14 4~1 4~2}}",
    "external-tensor": "1:8 7{2'g' 5{8'w' 2:1 1:4 14:1 13{1'location' 2'../w.bin'} 13{1'offset' 2'4096'} 13{1'length' "
                       "2'16'} 13{1'checksum' 2'ab'} 13{1'prepacked' 2'1'}}}",
    "sparse": "1:8 7{2'g' 15{1{8's' 2:1 1:2 4~1 4~2} 2{2:7 1:2 1:2 7h00000101} 3:4 3:3}}",
    "types": "1:8 7{2'g' 11{1'a' 2{4{1{9{1{1{1:7}}}}}}} 11{1'b' 2{5{1:7 2{1{1:1 2{}}}}}} 11{1'c' 2{8{1:1 2{1{1:9}}}}} "
             "11{1'd' 2{7{1'd' 2'n'} 6'den'}} 13{1'a' 3'doc' 4{1'k' 2'v'}}}",
    "arithmetic": "1:8 8{2:13} 7{2'g' 11{1'p' 2{1{1:1 2{1{2'b'} 1{2'p'}}}}} 11{1'x' 2{1{1:1 2{1{2'b'} 1{2's'}}}}} 11{1'm' 2{1{1:1 "
                  "2{1{2'p + s'}}}}} 11{1'q' 2{1{1:1 2{1{2'floor(h/2 - 1/2)'} 1{2'max(1, h//16)*2'} 1{2'-1+h'} 1{2'h-1'} 1{}}}}} "
                  "1{1'p' 1'x' 2'a' 4'Concat' 5{1'axis' 3:1 20:2}} 1{1'a' 1'm' 2'y' 4'Add'} 1{1'q' 2'z' 4'NonZero'} "
                  "12{1'y' 2{1{1:1 2{1{2'b'} 1{2'ceil((p+s)/1)'}}}}} 12{1'z' 2{1{1:7 2{1{2'(((((((n'} 1{2'min(n,)'}}}}}}",
    "attributes": "1:8 7{2'g' 1{2'y' 4'A' 5{1'f' 2~0.5 20:1} 5{1'i' 3:7 20:2} 5{1's' 4'abc' 20:3} 5{1't' 5{2:7 1:1 7:9} "
                  "20:4} 5{1'fs' 7h0000803f 7~3 20:6} 5{1'is' 8h0102 8:3 20:7} 5{1'ss' 9'a' 9'' 20:8} 5{1'ts' 10{2:1} "
                  "10{2:1} 20:9} 5{1'tp' 14{1{1:1}} 20:13} 5{1'tps' 15{4{}} 20:14} 5{1'sp' 22{1{2:1 1:1 9h00000000} 2{2:7 "
                  "1:1 7:2} 3:5} 20:11} 5{1'sps' 23{1{2:1 1:1 9h00000000} 2{2:7 1:1 7:2} 3:5} 20:12} 5{1'ir1' 3:1}}}",
    "subgraphs": "1:8 7{2'g' 11{1'x'} 1{1'x' 2'c' 4'Relu'} 1{1'c' 2'y' 4'Loop' 5{1'body' 20:5 6{2'b' 11{1'i'} 1{1'i' 1'x' "
                 "2'h' 4'Sum'} 1{1'h' 2'o' 4'If' 5{1'then_branch' 20:5 6{1{1'x' 1'h' 2't' 4'Add'} 12{1't'}}} "
                 "5{1'else_branch' 20:5 6{12{1'c'}}}} 12{1'o'}}}} 12{1'y'}}",
    "graphs-attribute": "1:8 7{2'g' 1{2'y' 4'Sw' 7'org' 5{1'gs' 20:10 11{1{2'a' 4'R'}} 11{1{2'a' 4'R'}}}}}",
    "functions": "1:9 8{2:17} 7{2'g' 11{1'x'} 1{1'x' 2'y' 4'f' 7'd' 5{1'low' 2~-1 20:1}} 1{1'y' 1'x' 2'z' 4'f' 7'd' 8'o'}} "
                 "25{1'f' 10'd' 4'p' 4'q' 5'r' 6'low' 6'mode' 11{1'high' 2~6 20:1} 9{2:13} 12{1't' 2{1{1:1}}} 7{1'p' 1'q' "
                 "2't' 4'Clip' 5{1'min' 21'low' 20:1} 5{1'max' 21'high' 20:1} 5{1'mode' 21'mode' 20:3}} 7{1't' 2'r' 4'If' "
                 "5{1'then_branch' 20:5 6{1{1'p' 2'n' 4'g' 7'd'} 12{1'n'}}}}} 25{1'g' 10'd' 4'x' 5'y' 7{1'x' 2'y' "
                 "4'Relu'}} 25{1'f' 10'd' 13'o' 4'a' 4'b' 5'a'}",
    "function-cycle": "7{2'g'} 25{1'a' 10'f' 4'x' 5'y' 7{1'x' 2'y' 4'b' 7'f'}} 25{1'b' 10'f' 4'x' 5'y' 7{1'x' 2'y' 4'a' "
                      "7'f'}}",
    "annotated": "1:11 26{1'c' 2:4} 7{2'g' 11{1'X'} 1{1'X' 2'Y' 4'Relu' 10{1'c' 3:2 2{1'X' 2:-1 2:-2 3{1:-1 2:0 2:1} 3{1:-2 "
                 "2h0203} 4{1:0 2{1:4 3:2} 2{2'N' 3:1}}}} 10{1'fuzz' 3:1}}}",
    "recorded": "1:11 7{2'g' 1{2'y' 4'R' 10{1'c' 3:0}}} 26{1'c' 2:2} 14{1'shardplan.annotations' "
                "2'{\"ir_version\":8,\"ir_version_added\":false,\"configurations\":[\"c\"],\"widths\":\"0:2 1:3\"}'}",
    "recorded-without-ir": "1:11 7{2'g'} 14{1'shardplan.annotations' "
                           "2'{\"ir_version\":null,\"ir_version_added\":true,\"configurations\":[]}'}",
    "backwards": "7{12{1'y'} 1{4'Relu' 2'h' 1'x'} 1{2'y' 4'Add' 1'h' 1'w'} 11{1'x'} 5{9h00000000 8'w' 2:1} 2'g'} 8{2:17} 1:8",
    "ir-version-twice": "1:7 7{2'g' 1{2'y' 4'R'}} 1:8",
    "unknown-fields": "1:8 99:1 98'x' 7{2'g' 50{1:1} 1{2'y' 4'R' 60:1}}",
    "circle": "7{2'g' 1{1'b' 2'a' 4'R'} 1{1'a' 2'b' 4'R'}}",
    "empty-nodes": "7{1{}*50}",
    "deep": "7{1{2'' 4'I' 5{1'g' 20:5 6{1{2'' 4'I' 5{1'g' 20:5 6{1{2'' 4'I' 5{1'g' 20:5 6{2'end'}}}}}}}}}}",
}

OP_SHARDING = {
    "replicated": "",
    "maximal": "1:1 4h0c",
    "listed": "1:3 3h0302 4h000204010305",
    "listed-unpacked": "1:3 3:3 3:1 4:2 4:0 4:1",
    "iota": "1:3 3h0402 9h0402 10h0100",
    "iota-huge": "1:3 3h808040808040 9h808080808020 10h00",
    "replicas": "1:3 3h020204 6:1 9h040202 10h020001",
    "subgroups": "1:3 3h0202020202 8h04060004 9h20 10h00",
    "unreduced-max": "1:6 7{1'sdy::reduction_op' 2'MAX'}",
    "metadata": "1:4 7{1'dot' 2'jit(f)/dot' 3'model.py' 4:12 17:14 18:3 19:40 12'dot.1' 15:7 16'late' 20{1'any'}}",
    "group": "1:3 3h0202 9h04 10h00 11:1 12:9 13:1",
    "tuple": "1:2 5{} 5{1:3 3h0201 4h0100} 5{1:1 4:3} 5{14{2{2h05}}}",
    "tuple-in-tuple": "1:2 5{1:2 5{1:2}}",
    "tile-shape": "1:5 2{2:13 4{2:11 3h0203} 4{2:13 4{4{4{}}}}}",
    "named": "14{2{1{1'data' 2:4} 1{1'model' 2:6}} 3{1{1:0 2{1:2 2:2}} 1{1:1 2{1:1 2:3}} 2:1} 3{1{1:0 2{1:1 2:2}}} "
             "5{1:1 2{1:3 2:2}} 6{2'mlp'} 8:2}",
    "named-listed": "14{2{1{1'x' 2:2} 1{1'y' 2:2} 2h03010200} 3{1{1:1} 2:1} 7{}}",
    "named-iota": "14{2{1{1'x' 2:4} 1{1'y' 2:2} 3{1h020202 2h020001}} 3{1{} 2:1} 3{} 4{1:1}}",
    "named-empty": "14{}",
    "unknown-field": "1:3 3h02 4h0001 15:1",
    "truncated": "1:3 3h0201 4h00",
}

HLO = {
    "tiles": "{devices=[3,2]5,4,3,2,1,0}",
    "iota": "{ devices = [2,2] }",
    "iota-transposed": "{devices=[6,4]<=[2,4,3]T(2,0,1)}",
    "iota-huge": "{devices=[1048576,2,1048576]<=[2097152,1048576]T(1,0) last_tile_dims={manual, replicated}}",
    "crossing": "{devices=[3,4]<=[4,3]T(1,0) last_tile_dim_replicate}",
    "replicas": "{devices=[2,6]<=[2,2,3]T(2,1,0) last_tile_dim_replicate}",
    "subgroups": "{devices=[2,1,3,2,2]<=[24] last_tile_dims={replicated, manual, unreduced, replicated} shard_as 4}",
    "metadata": "{maximal device=2 metadata={{op_name=\"a\\\"b\" source_line=7}, {op_type='x'}}}",
    "metadata-list": "{unknown shard_like -3 metadata={{op_name='a\\n\\303\\251'}, {}, {source_file='f.py' source_line=7}}}",
    "tuple": "{{replicated}, {maximal device=1},{devices=[2]1,0}, /* c */ {manual}, {unreduced}}",
    "tuple-long": "{{manual}, {manual}, {manual}, {manual}, {manual}, /*index=5*/{maximal_mesh[device_id=2]}}",
    "tensor": "[[[4],[3]],[[2],[1]]]",
    "tensor-inside": "{devices=[[0,1],[2,3]] last_tile_dim_replicate}",
    "tensor-ragged": "[[0,1],[2]]",
    "named": "{mesh['data'=4,'model'=6], [{'data':(2)2, 'model':(1)3}, {'data':(1)2, ?}], unreduced=min{'model':(3)2}, "
             "metadata={op_name='w'}}",
    "named-open": "{mesh[\"x\"=2] [{?}, {}, {'0' ?}]}",
    "named-devices": "{mesh['x'=2,'y'=3], device_ids=(5,4,3,2,1,0), [{'y'}, {'x'}]}",
    "named-iota": "{mesh['x'=2,'y'=6], device_ids=([3,4]T(1,0)), [{'y'}], replicated={'x'}}",
    "named-plain": "{mesh['x'=2], manual}",
    "named-unreduced": "{mesh['x'=2,'y'=2], unreduced=max{'x', 'y'}, metadata={{op_name='s'}}}",
    "named-meshless": "{replicated, metadata={{op_name='s'}}}",
    "named-unsorted": "{mesh['x'=2,'y'=2], [], manual={'y', 'x'}}",
    "overflow": "{devices=[4294967296,4294967296,4294967296]<=[4294967296,4294967296,4294967296]T(0,2,1)}",
    "attribute": "mhlo.sharding = \"\\08\\03\\1A\\02\\02\\01\\22\\02\\00\\01\"",
    "hexadecimal": "08031A02020122020001",
}

ONNX_SPEC = {
    "split": "1'X' 2:0 2:1 4{1:0 2{3:2}}",
    "split-both": "1'X' 2h00010203 4{1:1 2{3:2}} 4{1:0 2{3:2}}",
    "groups": "2:-1 2:-2 3{1:-1 2:0 2:1} 3{1:-2 2h0203} 4{1:-1 2{2'N' 3:2}}",
    "parts": "2:0 2:1 4{1:0 2{1:2 3:1} 2{1:4 3:2}}",
    "several-shards": "2h00000101 4{1:0 2{3:4}}",
    "open": "4{1:0 2{3:2}}",
    "one-device": "2:3",
    "whole": "2h0200 2:-1 3{1:-1 2h0001}",
    "unknown-field": "2:0 5:1",
    "no-key": "3{2:0}",
    "zero-shards": "2:0 4{1:0 2{3:0}}",
    "shards-in-product": "4{1:34 2{3:28}} 4{1:1 2{3:83}} 4{1:39 2{3:83}}",
    "many-shards": "4{1:0 2{3:4611686018427387904}} 4{1:1 2{3:4}}",
}

ONNX_SPEC_JSON = {
    "json": '{"tensorName":"X","device":[0,1],"shardedDim":[{"axis":0,"simpleSharding":[{"dimValue":8,"numShards":2}]}]}',
    "json-schema-names": '{"device": ["-1", 5], "index_to_device_group_map": [{"key": "-1", "value": ["0", 1]}], '
                         '"sharded_dim": [{"axis": -1, "simple_sharding": [{"dim_param": "N", "num_shards": "2"}]}]}',
    "json-group-object": '{"device":[-1],"indexToDeviceGroupMap":{"-1":[0,1]}}',
    "json-null": '{"tensorName":null,"device":[0],"shardedDim":[]}',
    "json-parts": '{"device":[0,1,2,3],"shardedDim":[{"axis":0,"simpleSharding":[{"dimValue":4,"numShards":2},'
                  '{"dimValue":2,"numShards":2}]}]}',
    "json-one-device-twice": '{"device":[1,1],"shardedDim":[{"axis":1,"simpleSharding":[{"dimValue":6,"numShards":2}]}]}',
    "json-duplicate": '{"device":[0],"device":[1]}',
    "json-nested-group": '{"device":[-1],"indexToDeviceGroupMap":[{"key":-1,"value":[-2]},{"key":-2,"value":[0]}]}',
}

ORT_SPEC = {
    "mesh": "S[0]R device_mesh_shape=[2] device_mesh_elements=[0,1]",
    "mesh-2d": "S[1]S[0] device_mesh_shape=[2,2] device_mesh_elements=[0,1,2,3]",
    "repeated": "S[0]R device_mesh_shape=[4] device_mesh_elements=[0,1,0,1]",
    "repeated-not-periodic": "S[0]R device_mesh_shape=[4] device_mesh_elements=[0,1,1,0]",
    "replicated": "RR device_mesh_shape=[2] device_mesh_elements=\"[0 1]\"",
    "rank-0": "device_mesh_shape=[1] device_mesh_elements=[3]",
    "bare": "RS[0]",
    "strings": '{"shard_spec": "RS[0]", "device_mesh_shape": "[2]", "device_mesh_elements": "[0, 1]"}',
    "integers": '{"spec": "RS[0]", "device_mesh_shape": [2], "device_mesh_elements": [1, 0]}',
    "empty-brackets": "S[]R device_mesh_shape=[2] device_mesh_elements=[0,1]",
    "twice": "S[0]S[0] device_mesh_shape=[2] device_mesh_elements=[0,1]",
    "beyond": "S[5] device_mesh_shape=[2] device_mesh_elements=[0,1]",
    "overflow": "S[99999999999999999999]",
    "silent-stop": "R device_mesh_shape=[2] device_mesh_elements=[0,x,1]",
}

SHARDY = {
    "mesh": "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n#sdy.sharding<@mesh, [{\"x\"}, {\"y\", ?}p1]>",
    "sub-axes": "<mesh<[\"x\"=8]>, [{\"x\":(2)4, ?}, {\"x\":(1)2}]>",
    "extras": "sdy.mesh @m = <[\"x\"=2, \"y\"=2, \"z\"=2]> #sdy.sharding<@m, [{}], replicated={\"y\"}, "
              "unreduced=max{\"x\", \"z\"}>",
    "devices": "<mesh<[\"x\"=2, \"y\"=2], device_ids=[3,1,2,0]>, [{\"y\"}, {\"x\"}]>",
    "one-device": "<mesh<[], device_ids=[3]>, []>",
    "empty-mesh": "<mesh<[]>, [{}, {?}]>",
    "tuple": "#sdy.sharding_per_value<[<mesh<[\"x\"=2]>, [{\"x\"}]>, <mesh<[]>, []>]>",
    "only-mesh": "sdy.mesh @\"a b\" = <[\"\\C3\\A9\"=2, \"q\\22\"=3], device_ids=[5,4,3,2,1,0]>",
    "huge-mesh": "<mesh<[\"x\"=1099511627776]>, [{\"x\":(4)1048576}]>",
    "comment": "// meshes\nsdy.mesh @mesh=<[\"x\"=2]>\nsdy.sharding = #sdy.sharding<@mesh,[{\"x\"?}]> // end",
    "ones": "<mesh<[\"x\"=1, \"y\"=1]>, [{\"x\"}, {\"y\", ?}p5]>",
    "overlap": "<mesh<[\"x\"=8]>, [{\"x\":(1)4}, {\"x\":(2)4}]>",
    "mergeable": "<mesh<[\"x\"=8]>, [{\"x\":(1)2, \"x\":(2)4}]>",
    "unknown-mesh": "#sdy.sharding<@mesh, []>",
    "open": "<mesh<[\"x\"=2",
}


# Descriptions of models: every member of the tensor graph, protobuf's mapping, and what is none.
JSON = {
    "document": '{"name":"g","doc":"d","opset":{"":21,"com.microsoft":1},"ir_version":11,"metadata":{"k":"v"},'
                '"configurations":[{"name":"c","numDevices":2,"device":["a","b"]}],"inputs":[{"name":"x","dtype":"float32",'
                '"shape":[8,"n",null]},{"name":"q","type":{"sequenceType":{"elemType":{"tensorType":{"elemType":1}}}}}],'
                '"initializers":[{"name":"w","dtype":"float16","shape":[8,4]},{"name":"s","dtype":"int64","shape":[2],'
                '"data":[0,-1]}],"outputs":["y",{"name":"z"}],"values":[{"name":"h","dtype":"bool"}],"nodes":[{"name":"n",'
                '"op":"Gemm","domain":"","inputs":["x","","w"],"outputs":["y"],"attributes":{"alpha":1,"transB":1},'
                '"metadata":{"a":"b"},"configurations":[{"configuration":"c","stage":1,"specs":[{"tensorName":"x","device":'
                '[0,-1],"indexToDeviceGroupMap":[{"key":-1,"value":[0,1]}],"shardedDim":[{"axis":0,"simpleSharding":[{'
                '"dimParam":"n","numShards":2}]}]}]}]}]}',
    "attributes": '{"opset":17,"nodes":[{"op":"Own","attributes":{"i":-7,"f":0.5,"s":"abc","b":true,"is":[1,2],"fs":[1,2.5],'
                  '"ss":["a",""],"ni":{"ints":[]},"nf":{"float":"NaN"},"t":{"tensor":{"dtype":"int32","shape":[1],"data":[3]}},'
                  '"tp":{"type":{"tensorType":{}}},"ts":{"tensors":[]},"tps":{"types":[{}]}}}]}',
    "graphs": '{"opset":17,"nodes":[{"op":"If","attributes":{"then_branch":{"graph":{"name":"t","nodes":[{"op":"R","attributes":'
              '{"g":{"graphs":[{},{"nodes":[{"op":"S"}]}]},"z":1}}],"outputs":["o"]}},"else_branch":{"graph":{}}}}]}',
    "elements": '{"opset":17,"nodes":[],"initializers":[{"name":"a","dtype":"bool","shape":[2],"data":[true,0]},{"name":"b",'
                '"dtype":"float16","shape":[3],"data":[65504,1e-8,"-Infinity"]},{"name":"c","dtype":"bfloat16","shape":[],"data":'
                '[1]},{"name":"d","dtype":"uint64","shape":[1],"data":["18446744073709551615"]},{"name":"e","dtype":"string",'
                '"shape":[1],"data":["\\ud83d\\ude00"]},{"name":"f","dtype":"double","shape":[0,2],"data":[]}]}',
    "model": '{"irVersion":"8","opset_import":[{"version":17}],"graph":{"node":[{"opType":"If","attribute":[{"name":"a","type":'
             '"GRAPH","g":{"node":[]}},{"f":"NaN","floats":[1e3,-0.0],"ints":["1",2],"s":"YQ==","strings":["-_8"],"type":3}]}],'
             '"initializer":[{"dims":["2"],"dataType":7,"int64Data":["1",-1],"rawData":"","dataLocation":"EXTERNAL"}],"input":[{'
             '"name":"\\u00e9","type":{"tensorType":{"elemType":1,"shape":{"dim":[{"dimValue":"4"},{"dimParam":"n"},{}]}}}}],'
             '"docString":null},"functions":[{"name":"f"}]}',
    "oneof-twice": '{"graph":{"input":[{"type":{"tensorType":{},"mapType":{}}}]}}',
    "costs": '{"name":"c","nodes":[{"id":1,"seconds":0.5,"memory_bytes":1}],"edges":[{"from":1,"to":1}]}',
    "escapes": '\ufeff {"opset":17,"nodes":[],"name":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u20AC"}',
    "half-a-pair": '{"graph":{"name":"\\ud800"}}',
    "deep": '{"graph":' + '{"node":[{"attribute":[{"g":' * 22 + '{}' + '}]}]}' * 22 + '}',
    "brackets": '{"nodes":' + '[' * 200,
    "long-payload": '{"graph":{"docString":"' + 'x' * 20000 + '","node":[' + ','.join(['{"name":"n"}'] * 40) + ']}}',
    "unclosed": '{"opset":17,"nodes":[{"op":"Relu',
    "null": 'null',
}


COSTS = {
    "every-member": '{"name":"c","nodes":[{"id":1,"name":"a","seconds":{"cpu-core":2,"A100-sxm4-80gb":0.5},"memory_bytes":1e9,'
                    '"output_bytes":8},{"id":"b","seconds":0.25,"group":"g"},{"id":3,"seconds":1,"group":null}],"edges":[{'
                    '"from":1,"to":"b","bytes":4,"tensor":"t"},{"from":1,"to":3,"seconds":0.5},{"from":"b","to":"3"}]}',
    "groups": '{"nodes":[{"id":0,"seconds":1,"group":1},{"id":1,"seconds":2,"output_bytes":5},{"id":2,"seconds":1,"group":1},{'
              '"id":3,"seconds":4,"group":2},{"id":4,"seconds":1},{"id":5,"seconds":1,"group":2}],"edges":[{"from":0,"to":1},'
              '{"from":1,"to":2},{"from":3,"to":4},{"from":4,"to":5},{"from":2,"to":4}]}',
    "one-kind-each": '{"nodes":[{"id":"a","seconds":{"cpu-core":1}},{"id":"b","seconds":{"a100-sxm4-80gb":1}},{"id":"c",'
                     '"seconds":{"a100-sxm4-80gb":2,"other":1}}],"edges":[{"from":"a","to":"b"},{"from":"b","to":"c"}]}',
    "back-and-forth": '{"nodes":[{"id":0,"seconds":{"cpu-core":1}},{"id":1,"seconds":{"a100-sxm4-80gb":1}},{"id":2,"seconds":{'
                      '"cpu-core":1}}],"edges":[{"from":0,"to":1},{"from":1,"to":2}]}',
    "chain": '{"nodes":[' + ','.join('{"id":%d,"seconds":%d,"output_bytes":100}' % (i, i % 5) for i in range(24)) + '],"edges":['
             + ','.join('{"from":%d,"to":%d}' % (i, i + 1) for i in range(23)) + ']}',
    "parts": '{"nodes":[{"id":0,"seconds":1,"output_bytes":100},{"id":1,"seconds":1},{"id":2,"seconds":1}],"edges":[{"from":0,'
             '"to":1,"bytes":30},{"from":0,"to":2,"bytes":30,"tensor":"x"},{"from":0,"to":2,"bytes":30}]}',
    "cycle": '{"nodes":[{"id":0,"seconds":1},{"id":1,"seconds":1}],"edges":[{"from":0,"to":1},{"from":1,"to":0}]}',
    "too-large": '{"nodes":[{"id":0,"seconds":1,"memory_bytes":1e18}],"edges":[]}',
    "no-edges": '{"nodes":[{"id":0,"seconds":0},{"id":1,"seconds":0}]}',
    "nothing": '{"nodes":[],"edges":[]}',
}

PRIVATE = {
    "full": '[{"domain":"com.example","name":"FusedGate","versions":[1,3],"rule":"[b.., k] [k, n] [n] -> [b.., n]; k sum",'
            '"types":[0,"int64",{"attribute":"to"}],"flops":"2*b..*k*n + 5*n"}]',
    "equations": '[{"domain":"a","name":"B","versions":2,"rule":"[b, h*d] [_..] -> [b, h, o]; h = heads:2; '
                 'o = (d - k[0]:1) / stride:1 + 1; h whole, d moves","flops":3.5}]',
    "symbols": '[{"domain":"a","name":"T","rule":"[n..] -> [n.., w] [w, 2] []; n.., w whole","types":["string"]}]',
    "bad-rule": '[{"domain":"a","name":"T","rule":"[n] -> [n]; n hole"}]',
    "bad-domain": '[{"domain":"ai.onnx","name":"T","rule":"[n] -> [n]"}]',
    "empty": '[]',
}

CONSTRAINTS = {
    "nothing": '{}',
    "every-member": '{"max_stages":2,"reserved_bytes":1000,"pins":[{"nodes":"first","stage":0},{"nodes":["s*","sum"],"stage":1}],'
                    '"together":[["relu","sec?nd"]],"specs":[{"tensor":"b","shards":[2,1,1]}],"forbid":[{"tensor":"w","axis":1},'
                    '{"nodes":"sum"},{"level":"far"}]}',
    "devices": '{"pins":[{"nodes":"first","device":3},{"nodes":"second","device":0}]}',
    "backwards": '{"pins":[{"nodes":"second","stage":0},{"nodes":"first","stage":1}]}',
    "one-stage": '{"max_stages":1,"specs":[{"tensor":"c","shards":[1,2,2]}]}',
    "split-and-not": '{"specs":[{"tensor":"y","shards":[4]}],"forbid":[{"tensor":"y","axis":0}]}',
    "whole": '{"specs":[{"tensor":"w","shards":[1,1]}],"forbid":[{"nodes":["*"]},{"level":"near"}]}',
    "all-together": '{"together":[["*"]],"max_stages":4}',
    "kept": '{"kv_cache":{"sequences":2,"positions":64,"dtype":"float16"},"max_stages":1}',
    "kept-bytes": '{"kv_cache_bytes":100000,"reserved_bytes":1}',
    "kept-too-much": '{"kv_cache_bytes":1e15}',
    "no-memory": '{"reserved_bytes":999999}',
    "nobody": '{"pins":[{"nodes":"nobody","stage":0}]}',
    "wrong": '{"pins":[{"nodes":[],"stage":-1}],"specs":[{"tensor":"","shards":[0]}]}',
    "stages-and-devices": '{"pins":[{"nodes":"first","stage":1},{"nodes":"first","device":2}]}',
}

PROFILE = {
    "nodes": '{"device":"cpu-core","nodes":{"a":1e-3,"b":{"cpu-core":0,"t4-16gb":2},"":5}}',
    "events": '{"events":[{"cat":"Session","name":"model_run","ts":1,"dur":9},{"cat":"Node","name":"n_kernel_time","ts":2,"dur":3},'
              '{"cat":"Node","name":"n_kernel_time","ts":12,"dur":5},{"cat":"Session","name":"model_run","ts":11,"dur":9},{"cat":'
              '"Node","name":"m_kernel_time","ts":13,"dur":1}]}',
    "array": '[{"cat":"Node","name":"n_kernel_time","ts":2,"dur":3},{"cat":"Node","name":"n_fence_after","ts":2,"dur":3},7]',
    "wrong": '{"nodes":{"a":-1}}',
}


def field(number, wire, payload):
    return varint(number << 3 | wire) + payload


def encode(text):
    at, open_messages, parts = 0, [], [b""]
    while text[at:].strip():
        token = TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"wrong notation before {text[at:at + 30]!r}")
        at = token.end()
        number, integer, quoted, hexes, real, begin, end, repeat = token.groups()
        if begin:
            open_messages.append(int(number))
            parts.append(b"")
            continue
        if end:
            payload = parts.pop()
            made = field(open_messages.pop(), 2, varint(len(payload)) + payload)
        elif integer is not None:
            made = field(int(number), 0, varint(int(integer)))
        elif real is not None:
            made = field(int(number), 5, struct.pack("<f", float(real)))
        else:
            payload = quoted.encode() if quoted is not None else bytes.fromhex(hexes)
            made = field(int(number), 2, varint(len(payload)) + payload)
        parts[-1] += made * int(repeat or 1)
    assert not open_messages
    return parts[0]


def write_folder(name, inputs):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", name)
    os.makedirs(folder, exist_ok=True)
    for file_name, content in inputs.items():
        with open(os.path.join(folder, file_name), "wb") as file:
            file.write(content)
    return folder


def recipe(segments, boxes=(), locations=(), literals=b""):
    """A saved recipe (core/realize/recipe_save.c) without its checksum. A segment: (kind, source, offset, size); a box:
    for each axis, outermost first, (extent, [(start, limit), ..])."""
    words, place = [], b"".join(name.encode() + b"\0" for name in locations)
    for box in boxes:
        words.append(len(box))
        for extent, ranges in box:
            words += [extent, len(ranges)] + [bound for pair in ranges for bound in pair]
    head = [len(segments), len(words), len(place), len(literals)]
    for kind, source, offset, size in segments:
        head += [source << 2 | kind, offset, size]
    return b"SPRECIP1" + struct.pack(f"<{len(head) + len(words)}Q", *head, *words) + place + literals


LITERAL, RANGE, BOX = 0, 1, 2
RECIPES = {
    "empty": recipe([]),
    "every-kind": recipe([(LITERAL, 0, 0, 3), (RANGE, 0, 100, 50), (BOX, 1, 64, 12), (LITERAL, 0, 3, 2), (RANGE, 1, 0, 9)],
                         [[(4, [(0, 1), (2, 4)]), (8, [(2, 6)])]], ["weights.bin"], b"abcde"),
    "columns": recipe([(BOX, 0, 0, 4096)], [[(4096, [(0, 4096)]), (2, [(1, 2)])]]),
    "nested": recipe([(BOX, 0, 7, 2 * 3 * 2 * 5)],
                     [[(9, [(1, 2), (5, 6)]), (7, [(2, 5)]), (6, [(0, 1), (3, 4)]), (40, [(10, 15)])]]),
    "far": recipe([(BOX, 0, 0, 8)], [[(2, [(0, 2)]), (1 << 60, [(0, 4)])]]),
    "huge": recipe([(BOX, 0, 0, (1 << 30) * 7)], [[(1 << 30, [(0, 1 << 30)]), (9, [(1, 8)])]]),
    "two-sources": recipe([(RANGE, 1, 5, 5), (RANGE, 2, 6, 6)], (), ["a", "b/c"]),
    "overlapping-ranges": recipe([(BOX, 0, 0, 4)], [[(2, [(0, 2)]), (8, [(0, 2), (1, 3)])]]),
    "outside": recipe([(BOX, 0, 0, 4)], [[(2, [(0, 2)]), (8, [(7, 9)])]]),
    "wrong-size": recipe([(BOX, 0, 0, 5)], [[(2, [(0, 2)]), (8, [(0, 2)])]]),
    "too-large": recipe([(RANGE, 0, (1 << 63) - 8, 9)]),
    "no-such-source": recipe([(RANGE, 3, 0, 9)], (), ["a"]),
    "same-location": recipe([(RANGE, 1, 0, 9)], (), ["a", "a"]),
}


# Models that are planned and written, with what went wrong once: results and captures without elements, a function whose
# result only the call declares, an If whose condition is known, a node that is used through its shape alone, no set of
# ai.onnx.
FLOAT = "2{1{1:1 2{%s}}}"
PLANNED = {
    "empty-axes-in-branches": "1:8 8{2:18} 7{2'g' 11{1'x' " + FLOAT % "1{1:3} 1{1:2} 1{1:2}" + "} 11{1'axes' 2{1{1:7 2{1{1:0}}}}} "
                              "11{1'c' 2{1{1:9 2{}}}} 1{1'c' 2'y' 4'If' 5{1'then_branch' 20:5 6{2't' 1{1'x' 1'axes' 2'r' "
                              "4'ReduceSum'} 12{1'r' 2{1{1:1}}}}} 5{1'else_branch' 20:5 6{2'e' 1{1'x' 1'axes' 2's' "
                              "4'ReduceMean'} 12{1's' 2{1{1:1}}}}}} 12{1'y' " + FLOAT % "1{1:1} 1{1:1} 1{1:1}" + "}}",
    "empty-result": "1:8 8{2:17} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 1{1'x' 2'y' 4'Shape' 5{1'start' 3:2 20:2}} "
                    "1{1'x' 2'z' 4'Relu'} 12{1'y' 2{1{1:7 2{1{1:0}}}}} 12{1'z' " + FLOAT % "1{1:4} 1{1:2}" + "}}",
    "only-an-empty-result": "1:8 8{2:17} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 1{1'x' 2'y' 4'Shape' 5{1'start' 3:2 "
                            "20:2}} 12{1'y' 2{1{1:7 2{1{1:0}}}}}}",
    "result-that-the-call-declares": "1:8 8{2:17} 8{1'loc' 2:1} 7{2'g' 11{1'x' " + FLOAT % "1{1:8} 1{1:8}" + "} 1{1'x' 2'y' 4'F' "
                                     "7'loc'} 1{1'y' 2'z' 4'Relu'} 13{1'y' " + FLOAT % "1{1:8} 1{1:8}" + "} 12{1'z' "
                                     + FLOAT % "1{1:8} 1{1:8}" + "}} 25{1'F' 10'loc' 4'a' 5'o' 7{1'a' 2'o' 4'U' 7'loc'} 9{2:17} "
                                     "9{1'loc' 2:1}}",
    "known-condition": "1:8 8{2:17} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 5{8'c' 2:9 9h01} 5{8'w' 2:1 1:2 1:2 "
                       "9h0000803f000000400000404000008040} 5{8'v' 2:1 1:2 1:3 9h0000803f00000040000040400000803f00000040"
                       "00004040} 1{1'x' 2'a' 4'Relu'} 1{1'x' 2'b' 4'Exp'} 1{1'c' 2'y' 4'If' 5{1'then_branch' 20:5 6{2't' "
                       "1{1'a' 1'w' 2'r' 4'MatMul'} 1{1'r' 2'q' 4'Tanh'} 12{1'q'}}} 5{1'else_branch' 20:5 6{2'e' 1{1'b' "
                       "1'v' 2's' 4'MatMul'} 12{1's'}}}} 1{1'y' 2'z' 4'Neg'} 12{1'z' " + FLOAT % "1{1:4} 1{1:2}" + "}}",
    "known-condition-in-a-loop": "1:8 8{2:17} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 5{8'c' 2:9 9h00} 5{8'n' 2:7 "
                                 "9h0300000000000000} 1{1'x' 2'a' 4'Relu'} 1{1'n' 1'' 1'a' 2'z' 4'Loop' 5{1'body' 20:5 6{2'b' "
                                 "11{1'i' 2{1{1:7 2{}}}} 11{1'k' 2{1{1:9 2{}}}} 11{1's' " + FLOAT % "1{1:4} 1{1:2}" + "} 1{1'c' "
                                 "2't' 4'If' 5{1'then_branch' 20:5 6{2't' 1{1's' 2'r' 4'Neg'} 12{1'r'}}} 5{1'else_branch' 20:5 "
                                 "6{2'e' 1{1's' 1'x' 2'q' 4'Add'} 12{1'q'}}}} 12{1'k' 2{1{1:9 2{}}}} 12{1't' "
                                 + FLOAT % "1{1:4} 1{1:2}" + "}}}} 12{1'z' " + FLOAT % "1{1:4} 1{1:2}" + "}}",
    "annotated-in-branches": "1:11 8{2:18} 26{1'c' 2:2} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 11{1'c' 2{1{1:9 2{}}}} "
                             "1{1'c' 2'y' 4'If' 5{1'then_branch' 20:5 6{2't' 1{1'x' 2'r' 4'Relu' 10{1'c' 2{1'x' 2:0 2:1 "
                             "4{1:0 2{1:4 3:2}}}}} 12{1'r'}}} 5{1'else_branch' 20:5 6{2'e' 1{1'x' 2's' 4'Exp' 10{1'c' 2{1'x' "
                             "2:0 2:1 4{1:0 2{1:4 3:2}}}}} 12{1's'}}} 10{1'c'}} 12{1'y' " + FLOAT % "1{1:4} 1{1:2}" + "}}",
    "scalars-in-a-loop": "1:8 8{2:17} 7{2'g' 11{1'x' 2{1{1:6 2{}}}} 11{1'n' 2{1{1:7 2{}}}} 1{1'n' 1'' 1'x' 2'y' 2'z' 4'Loop' "
                         "5{1'body' 20:5 6{2'b' 11{1'i'} 11{1'k'} 11{1's'} 1{1's' 1's' 2't' 4'Add'} 1{1'i' 1'i' 2'r' 4'Add'} "
                         "12{1'k'} 12{1't'} 12{1'r'}}}} 12{1'y' 2{1{1:6 2{}}}} 12{1'z' 2{1{1:7 2{1{1:2}}}}}}",
    "listed-twice": "1:8 8{2:17} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 1{1'x' 2'y' 4'Relu'} 12{1'y' "
                    + FLOAT % "1{1:4} 1{1:2}" + "} 12{1'x' " + FLOAT % "1{1:4} 1{1:2}" + "} 12{1'y' " + FLOAT % "1{1:4} 1{1:2}"
                    + "}}",
    "used-through-its-shape": "1:8 8{2:17} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:4}" + "} 1{1'x' 2'a' 4'Relu'} 1{1'a' 2'b' "
                              "4'Relu'} 1{1'b' 2's' 4'Shape'} 1{1'x' 1's' 2'r' 4'Reshape'} 1{1'r' 2't' 4'Relu'} 1{1't' "
                              "2'y' 4'Relu'} 12{1'y' " + FLOAT % "1{1:4} 1{1:4}" + "}}",
    "no-standard-set": "1:8 8{1'ai.onnx.ml' 2:3} 7{2'g' 11{1'x' " + FLOAT % "1{1:4} 1{1:6}" + "} 1{1'x' 2'y' 4'Scaler' "
                       "7'ai.onnx.ml' 5{1'offset' 7~1 20:6} 5{1'scale' 7~2 20:6}} 12{1'y' " + FLOAT % "1{1:4} 1{1:6}" + "}}",
}

# Rows of kernels that are confirmed: each time three times.
def measured(*rows):
    return "kernel,dtype,shape,seconds\n" + "".join(3 * (row + "\n") for row in rows)


PRODUCTS = ["product,float32,1x64x64,1e-6", "product,float32,64x64x64,6e-6", "product,float32,1x1024x1024,1e-4",
            "product,float32,128x256x256,2e-4", "product,float32,256x512x512,1.4e-3"]
OTHERS = ["add,float32,1024,1e-6", "exp,float32,1024,2e-6", "transpose,float32,1x8x8x8,1e-6", "add,float32,1000000,3e-4",
          "exp,float32,1000000,9e-4", "transpose,float32,1x64x64x64,2e-4"]
NCCL = ("# nThread 1 nGpus 2 minBytes 8192\n#  Rank  0 Group  0\n#  Rank  1 Group  0\n# size count type redop root time\n"
        + "".join(f"  {1024 << i} 256 float sum -1 {10 + i * i}.5 1.0 1.0 0\n" for i in range(8)))
CALIBRATE = {
    "attention": measured(*PRODUCTS, *OTHERS, "prefill,float32,1x4x64x64,1e-4", "prefill,float32,1x4x32x64,5e-5",
                          "prefill,float32,1x4x128x64,3e-4", "decode,float32,1x4x4x64x64,1e-5", "decode,float32,1x4x4x128x64,2e-5",
                          "decode,float32,1x4x4x1024x64,1e-4"),
    "bad-head": "kernel,dtype,seconds\nadd,float32,1\n",
    "huge": measured(*(f"product,float32,{i}00000000x1000000x1000000,1e-9" for i in range(1, 7)), *OTHERS),
    "nccl": NCCL,
    "nccl-broken": "# nThread 1\n 8 x\n",
    "no-ranks": "# nThread 1\n# size count type redop root time\n 1024 256 float sum -1 1.0\n",
    "noisy": "kernel,dtype,shape,seconds\nadd,float32,8,1\nadd,float32,8,2\nadd,float32,8,3\n",
    "notes": "# runtime: a\x01b\n# date:\n#\n" + measured(*PRODUCTS, *OTHERS),
    "profile": '[{"cat":"Node","name":"add.float32.8#0_kernel_time","dur":3},{"cat":"Node","name":"add.float32.8#1_kernel_time",'
               '"dur":3},{"cat":"Node","name":"convolution.float32.1x8x4x4x3#0_nchwc_kernel_time","dur":3},7]',
    "slow": measured(*(row.rsplit(",", 1)[0] + ",1000000" for row in PRODUCTS + OTHERS)),
    "note-alone": "#  ",
    "small": measured(*PRODUCTS, *OTHERS),
    "zero": measured(*(row.rsplit(",", 1)[0] + ",0" for row in PRODUCTS)),
}

SWEEP = {
    "array": '[1, 2]',
    "both": '{"devices": [1], "types": ["l4-24gb"], "cluster": {"device": "l4-24gb", "count": 1}}',
    "described": '{"devices": [2], "types": [{"name": "mine", "memory_bytes": 48e9, "memory_bandwidth": 900e9, "fl'
                 'ops": {"float32": 40e12}, "link_bandwidth": 50e9}]}',
    "huge": '{"devices": [4294967297, -1, 1e300], "types": ["l4-24gb"]}',
    "many": '{"devices": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31'
            ',32,33], "types": ["l4-24gb", "t4-16gb"]}',
    "none": '{"devices": [], "types": []}',
    "prefixes": '{"devices": [1, 3], "cluster": {"groups": [{"name": "a", "count": 2, "device": "l4-24gb"}, {"nam'
                'e": "b", "count": 2, "device": "t4-16gb"}], "mesh": [{"name": "node", "size": 2, "bandwidth": 25'
                'e9, "latency": 5e-6}, {"name": "gpu", "size": 2, "bandwidth": 300e9, "latency": 2e-6}]}, "choose'
                '": "smallest"}',
    "twice": '{"devices": [1, 1], "types": ["l4-24gb"]}',
    "types": '{"devices": [1, 2, 4], "types": ["l4-24gb", "h100-sxm-80gb"], "choose": "best"}',
    "unknown": '{"devices": [1], "types": ["l4-24gb"], "chose": "best"}',
}

TRACE = {
    "plain": "seconds,input,output\n0,100,20\n0.5,20,1\n0.5,3000,7\n",
    "any-order": "# mine\n\noutput, id ,Seconds,\"input\"\r\n1,x,4.5,7\r\n5,,3,10",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
                "45,ChatGPT,1087,0,1087,Conversation log\n",
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,374,44\n",
    "many-at-once": "seconds,input,output\n" + "1,10,30\n" * 300,
    "empty": "",
    "names-alone": "seconds,input,output\n",
    "two-times": "seconds,time,input,output\n1,1,1,1\n",
    "short-line": "seconds,input,output\n1,2\n",
    "bad-numbers": "seconds,input,output\nnan,1,1\n",
    "negative": "seconds,input,output\n-5,1,1\n5,1,1\n",
    "no-such-day": "seconds,input,output\n2024-02-32 00:00:00,1,1\n",
    "long-field": "seconds,input,output\n" + "1" * 100 + ",1,1\n",
    "zero-bytes": "seconds,input,output\n1\0,1,1\n",
    "columns": "seconds,input,output" + "," * 80 + "\n",
}

WORKLOAD = {
    "llm": '{"llm": {"input": 20, "output": 8}, "concurrency": 4, "limits": {"ttft_seconds": 0.5, "tpot_seconds": 0.05}}',
    "best": '{"llm": {"input": [5, 10, 60], "output": {"mean": 8, "p90": 20}}, "concurrency": "best"}',
    "rate": '{"llm": {"input": 20, "output": 8, "shared_prefix": 8}, "rate_per_second": 100, "limits": {"request_seconds": 9}}',
    "named": '{"llm": {"input": 20, "output": 8}, "symbols": {"batch": "batch", "positions": "seq", "past": "past"}, "concurrency": 1}',
    "wrong-names": '{"llm": {"input": 20, "output": 8}, "symbols": {"batch": "no", "total": "input_embeds:7"}, "concurrency": 1}',
    "no-plan": '{"llm": {"input": 20, "output": 8}, "concurrency": 4, "limits": {"tpot_seconds": 1e-9}}',
    "pools": '{"llm": {"input": 20, "output": 8}, "pools": "separate", "concurrency": 4}',
    "pools-at-a-rate": '{"llm": {"input": 20, "output": 8}, "pools": "best", "rate_per_second": 100, "limits": {"ttft_seconds": 9}}',
    "pools-of-nothing": '{"llm": {"input": 20, "output": 8}, "pools": 7}',
    "one-token": '{"llm": {"input": 1, "output": 1}, "concurrency": 7}',
    "phases": '{"phases": [{"name": "single", "dims": {"batch": 1, "seq": 4, "past": 0}, "share": 0.8}, {"name": "bulk", "dims": '
              '{"batch": 32, "seq": 1, "past": 9}, "values": {}, "share": 0.2, "requests": 32, "per_request": 2}], "rate_per_second": 10}',
    "state": '{"phases": [{"name": "a"}], "state": [["past_key_values.*", "present.*"]]}',
    "both-forms": '{"llm": {"input": 1, "output": 1}, "phases": []}',
    "neither": '{"concurrency": 1}',
    "unknown": '{"llm": {"input": 1, "output": 1, "inputs": 2}}',
    "wrong-types": '{"llm": {"input": "x", "output": []}, "concurrency": 0.5}',
    "impossible-percentile": '{"llm": {"input": {"mean": 10, "p51": 9000}, "output": 1}}',
    "huge": '{"llm": {"input": 16777216, "output": 16777216}, "concurrency": 1048576}',
    "same-names": '{"phases": [{"name": "a"}, {"name": "a"}]}',
}


def main():
    write_folder("trace", {name: text.encode() for name, text in TRACE.items()})
    write_folder("workload", {name: text.encode() for name, text in WORKLOAD.items()})
    write_folder("op_sharding", {name: encode(notation) for name, notation in OP_SHARDING.items()})
    write_folder("hlo", {name: text.encode() for name, text in HLO.items()})
    write_folder("onnx_spec", {name: encode(notation) for name, notation in ONNX_SPEC.items()})
    write_folder("onnx_spec", {name: text.encode() for name, text in ONNX_SPEC_JSON.items()})
    write_folder("ort_spec", {name: text.encode() for name, text in ORT_SPEC.items()})
    write_folder("shardy", {name: text.encode() for name, text in SHARDY.items()})
    write_folder("json", {name: text.encode() for name, text in JSON.items()})
    write_folder("private", {name: text.encode() for name, text in PRIVATE.items()})
    write_folder("constraints", {name: text.encode() for name, text in CONSTRAINTS.items()})
    write_folder("costs", {name: text.encode() for name, text in COSTS.items()})
    write_folder("profile", {name: text.encode() for name, text in PROFILE.items()})
    write_folder("calibrate", {name: text.encode() for name, text in CALIBRATE.items()})
    write_folder("sweep", {name: text.encode() for name, text in SWEEP.items()})
    write_folder("plan", {name: encode(notation) for name, notation in PLANNED.items()})
    write_folder("recipe", RECIPES)
    write_folder("index", INDEXES)
    folder = write_folder("onnx", {name: encode(notation) for name, notation in CORPUS.items()})
    # A five-byte length prefix around the graph, and an ir_version in three bytes: both must come back from a strip.
    graph = encode("2'g' 1{2'y' 4'R'}")
    with open(os.path.join(folder, "wide-varints"), "wb") as file:
        size = len(graph)
        file.write(b"\x08\x88\x80\x00\x3a" + bytes([size | 0x80, 0x80, 0x80, 0x80, 0]) + graph)
    with open(os.path.join(folder, "truncated"), "wb") as file:
        file.write(encode(RELU)[:-7])


if __name__ == "__main__":
    main()
