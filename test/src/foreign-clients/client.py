"""A client in Python, of what grpcio-tools makes of proto/. Arguments: the addresses of a registry and a director, the
files of the authorities, the certificate and its key. Prints what it was answered as JSON."""

import json
import sys

import diskmesh.common.v1.admin_pb2_grpc
import diskmesh.cpi.v1.cpi_service_pb2_grpc
import grpc
from diskmesh.director.v1 import task_service_pb2, task_service_pb2_grpc
from diskmesh.registry.v1 import disk_registry_service_pb2, disk_registry_service_pb2_grpc, types_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status

registry_address, director_address = sys.argv[1:3]
authorities, certificate, key = (open(file, "rb").read() for file in sys.argv[3:6])
mutual = grpc.ssl_channel_credentials(authorities, key, certificate)

hosts = disk_registry_service_pb2_grpc.DiskRegistryServiceStub(grpc.secure_channel(registry_address, mutual))
tasks = task_service_pb2_grpc.TaskServiceStub(grpc.secure_channel(director_address, mutual))
added = hosts.AddHost(disk_registry_service_pb2.AddHostRequest(host_id="host-1"), timeout=60)
listed = tasks.ListTasks(task_service_pb2.ListTasksRequest(), timeout=60)

details = {}
try:
    hosts.AddHost(disk_registry_service_pb2.AddHostRequest(), timeout=60)
except grpc.RpcError as refusal:
    refused = refusal.code().name
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in rpc_status.from_call(refusal).details:
        if detail.Unpack(info):
            details["reason"] = info.reason
        elif detail.Unpack(bad_request):
            details["field"] = bad_request.field_violations[0].field

print(
    json.dumps(
        {
            "added": types_pb2.ActionCode.Name(added.result.code),
            "tasks": len(listed.tasks),
            "refused": refused,
            "details": details,
        }
    )
)
