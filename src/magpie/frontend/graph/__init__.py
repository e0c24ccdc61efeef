"""Graph IR: tensor programs as `.tg` text or ONNX files, and their way to Kernel IR. See docs/GRAPH.md."""
