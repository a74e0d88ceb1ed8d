"""Print what TensorBoard reads in a folder, as JSON: {"scalars": {tag: [[wall_us, step, value]]}, "texts": {tag: [text]},
"histograms": {tag: [[step, [left, right, count], ...]]}, "hparams": {name: value}, "started": seconds}; the last three
if there are any."""
import json
import sys

import tensorboard.util.tensor_util as tensor_util
from google.protobuf.json_format import MessageToDict
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
scalars = {
    tag: [[round(e.wall_time * 1e6), e.step, repr(e.value)] for e in events.Scalars(tag)] for tag in tags["scalars"]
}
plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
texts = {tag: [e.tensor_proto.string_val[0].decode() for e in events.Tensors(tag)]
         for tag in tags["tensors"] if plugins[tag] == "text"}
found = {"scalars": scalars, "texts": texts, "plugins": plugins}
histograms = {tag: [[e.step, *tensor_util.make_ndarray(e.tensor_proto).tolist()] for e in events.Tensors(tag)]
              for tag in tags["tensors"] if plugins[tag] == "histograms"}
if histograms:
    found["histograms"] = histograms
for content in events.summary_metadata.values():
    if content.plugin_data.plugin_name == "hparams":
        data = plugin_data_pb2.HParamsPluginData.FromString(content.plugin_data.content)
        start = data.session_start_info
        found["hparams"] = {name: MessageToDict(value) for name, value in start.hparams.items()}
        found["started"] = start.start_time_secs
json.dump(found, sys.stdout, sort_keys=True, separators=(",", ":"))
