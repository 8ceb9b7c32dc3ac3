"""Follows the devices of a registry in Python, over keepalives and restarts. Arguments: the address of a registry, the files
of the authorities, the certificate and its key. Prints each message of the watch as a line. A line on standard input
cancels the stream; the end of standard input ends the client."""

import os
import sys
import threading
import time

import grpc
from diskmesh.registry.v1 import disk_registry_service_pb2, disk_registry_service_pb2_grpc, types_pb2

address = sys.argv[1]
authorities, certificate, key = (open(file, "rb").read() for file in sys.argv[2:5])
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(authorities, key, certificate), KEEPALIVE)
registry = disk_registry_service_pb2_grpc.DiskRegistryServiceStub(channel)
token, stream = "", None


def cancel_for_each_line():
    for _ in sys.stdin:
        stream.cancel()
    os._exit(0)


def line_of(message):
    update = message.WhichOneof("update")
    if update == "device":
        return f"{message.device.device_id} {types_pb2.Health.Name(message.device.health)}"
    return update


threading.Thread(target=cancel_for_each_line, daemon=True).start()
while True:
    request = disk_registry_service_pb2.WatchDevicesRequest(resume_token=token)
    stream = registry.WatchDevices(request, wait_for_ready=True)
    try:
        for message in stream:
            token = message.resume_token or token
            print(line_of(message), flush=True)
    except grpc.RpcError as end:
        print(f"ended {end.code().name}", flush=True)
        if end.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
            raise
        if end.code() == grpc.StatusCode.UNAVAILABLE:
            time.sleep(1)
