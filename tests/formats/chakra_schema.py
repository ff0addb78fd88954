"""The part of Chakra's schema that traces of collectives use, for Google's protocol buffers to read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32
from google.protobuf.internal.encoder import _VarintBytes

Field = descriptor_pb2.FieldDescriptorProto

_SCALARS = [
    ("double", 3, Field.TYPE_DOUBLE), ("float", 5, Field.TYPE_FLOAT), ("int32", 7, Field.TYPE_INT32),
    ("int64", 9, Field.TYPE_INT64), ("uint32", 11, Field.TYPE_UINT32), ("uint64", 13, Field.TYPE_UINT64),
    ("sint32", 15, Field.TYPE_SINT32), ("sint64", 17, Field.TYPE_SINT64), ("fixed32", 19, Field.TYPE_FIXED32),
    ("fixed64", 21, Field.TYPE_FIXED64), ("sfixed32", 23, Field.TYPE_SFIXED32), ("sfixed64", 25, Field.TYPE_SFIXED64),
    ("bool", 27, Field.TYPE_BOOL), ("string", 29, Field.TYPE_STRING), ("bytes", 31, Field.TYPE_BYTES),
]  # fmt: skip
_NODE_TYPES = [
    "INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE", "COMP_NODE", "COMM_SEND_NODE",
    "COMM_RECV_NODE", "COMM_COLL_NODE",
]  # fmt: skip


def _schema() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="et_def.proto", package="ChakraProtoMsg", syntax="proto3"
    )
    enum = file.enum_type.add(name="NodeType")
    for number, name in enumerate(_NODE_TYPES):
        enum.value.add(name=name, number=number)
    attribute = _message(
        file,
        "AttributeProto",
        [("name", 1, Field.TYPE_STRING), ("doc_string", 2, Field.TYPE_STRING)],
    )
    attribute.oneof_decl.add(name="value")
    for name, number, kind in _SCALARS:
        values = _message(file, f"{name.capitalize()}List", [])
        values.field.add(name="values", number=1, type=kind, label=Field.LABEL_REPEATED)
        attribute.field.add(
            name=f"{name}_val", number=number, type=kind, label=Field.LABEL_OPTIONAL, oneof_index=0
        )
        attribute.field.add(
            name=f"{name}_list", number=number + 1, type=Field.TYPE_MESSAGE, label=Field.LABEL_OPTIONAL, oneof_index=0,
            type_name=f".ChakraProtoMsg.{values.name}",
        )  # fmt: skip
    metadata = _message(file, "GlobalMetadata", [("version", 1, Field.TYPE_STRING)])
    node = _message(file, "Node", [("id", 1, Field.TYPE_UINT64), ("name", 2, Field.TYPE_STRING)])
    node.field.add(
        name="type",
        number=3,
        type=Field.TYPE_ENUM,
        label=Field.LABEL_OPTIONAL,
        type_name=".ChakraProtoMsg.NodeType",
    )
    for name, number in (("ctrl_deps", 4), ("data_deps", 5)):
        node.field.add(name=name, number=number, type=Field.TYPE_UINT64, label=Field.LABEL_REPEATED)
    for name, number in (("start_time_micros", 6), ("duration_micros", 7)):
        node.field.add(name=name, number=number, type=Field.TYPE_UINT64, label=Field.LABEL_OPTIONAL)
    for message, number in ((metadata, 2), (node, 10)):
        message.field.add(
            name="attr", number=number, type=Field.TYPE_MESSAGE, label=Field.LABEL_REPEATED,
            type_name=".ChakraProtoMsg.AttributeProto",
        )  # fmt: skip
    return file


def _message(file: Any, name: str, fields: list[tuple[str, int, int]]) -> Any:
    message = file.message_type.add(name=name)
    for field, number, kind in fields:
        message.field.add(name=field, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    return message


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_schema())
Node: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("ChakraProtoMsg.Node"))
GlobalMetadata: Any = message_factory.GetMessageClass(
    _POOL.FindMessageTypeByName("ChakraProtoMsg.GlobalMetadata")
)


def read_trace(path: Path) -> tuple[Any, list[Any]]:
    """The metadata and the nodes of one file."""
    head, *nodes = _delimited(path.read_bytes())
    return GlobalMetadata.FromString(head), [Node.FromString(node) for node in nodes]


def write_trace(path: Path, nodes: Iterable[Any], metadata: Any = None) -> None:
    """Write one file."""
    messages = [metadata or GlobalMetadata(version="0.0.4"), *nodes]
    content = [message.SerializeToString() for message in messages]
    path.write_bytes(b"".join(_VarintBytes(len(one)) + one for one in content))


def attributes(node: Any) -> dict[str, Any]:
    """What a node says of itself, lists as tuples."""
    values = {one.name: getattr(one, one.WhichOneof("value")) for one in node.attr}
    return {
        name: tuple(value.values) if hasattr(value, "values") else value
        for name, value in values.items()
    }


def _delimited(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length, at = _DecodeVarint32(data, at)
        assert at + length <= len(data)
        yield data[at : at + length]
        at += length
