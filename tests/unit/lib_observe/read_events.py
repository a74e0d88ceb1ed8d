"""Print what TensorBoard reads in a folder, as JSON: {"scalars": {tag: [[wall_us, step, value]]}, "texts": {tag: [text]}}."""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
events.Reload()
tags = events.Tags()
scalars = {
    tag: [[round(e.wall_time * 1e6), e.step, repr(e.value)] for e in events.Scalars(tag)] for tag in tags["scalars"]
}
texts = {tag: [e.tensor_proto.string_val[0].decode() for e in events.Tensors(tag)] for tag in tags["tensors"]}
plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
json.dump({"scalars": scalars, "texts": texts, "plugins": plugins}, sys.stdout, sort_keys=True, separators=(",", ":"))
