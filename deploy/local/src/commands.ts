import { dirname, relative } from "node:path";
import { BOSH_USER } from "./mesh/bosh-login.js";
import type { MeshLayout } from "./mesh/layout.js";
import { DEPLOYMENT, HOSTS } from "./mesh/layout.js";
import { DISK_TYPE } from "./story/deployment.js";
import { DISK_NAME, DISK_SIZE_BYTES } from "./story/disk.js";

/** Returns shell commands for the operator's next steps, with this mesh's addresses and certificates. */
export function commandsToCopy(layout: MeshLayout, instanceId: string, boshPassword: string): string {
  const { caFile, certFile, keyFile } = layout.tlsFiles("operator");
  const flags = (style: "-" | "--") =>
    `${style}cacert ${shellQuote(caFile)} ${style}cert ${shellQuote(certFile)} ${style}key ${shellQuote(keyFile)}`;
  const registry = layout.addressOf("disk-registry");
  const director = layout.addressOf("director");
  const removed = HOSTS.at(-1)?.hostId ?? "";
  return `
The mesh serves until Ctrl-C. Endpoints: ${layout.endpointsFile}
The page: ${layout.pageAddress} (name ${BOSH_USER}, password ${boshPassword}; its certificate is of ${shellQuote(caFile)})
Commands to copy into another terminal:

  # what runs, what needs attention, and all else that the command does
  npx diskmesh --state ${shellQuote(dirname(layout.endpointsFile))} status
  npx diskmesh --help
  # a disk on a host; each command prints what comes next
  npx diskmesh --state ${shellQuote(dirname(layout.endpointsFile))} provide scratch --host ${removed} --size 32MiB

  # the same over gRPC, with grpcurl; below without it
  g() { grpcurl ${flags("-")} "$@"; }
  REGISTRY=${registry} DIRECTOR=${director} R=diskmesh.registry.v1.DiskRegistryService D=diskmesh.director.v1.DynamicDiskService

  # services, by reflection
  g $REGISTRY list
  # devices, their states and generations
  g $REGISTRY $R/ListDevices
  # take a host out of operation, watch its devices be erased and go CLOSING -> DETACHED, and take it back
  g -d '{"host_id":"${removed}"}' $REGISTRY $R/RemoveHost
  g -d '{"host_id":"${removed}"}' $REGISTRY $R/ListDevices
  g -d '{"host_id":"${removed}"}' $REGISTRY $R/AddHost
  # detach the story's disk, and delete it
  g -d '{"disk_name":"${DISK_NAME}","wait":true}' $DIRECTOR $D/DetachDynamicDisk
  g -d '{"disk_name":"${DISK_NAME}","wait":true}' $DIRECTOR $D/DeleteDynamicDisk
  # provide one of your own for an instance of the deployment
  g -d '{"deployment":"${DEPLOYMENT}"}' $DIRECTOR diskmesh.director.v1.DeploymentService/ListInstances
  g -d '{"disk_name":"mine","instance_id":"${instanceId}","disk_pool_name":"${DISK_TYPE}","size_bytes":${DISK_SIZE_BYTES},"wait":true}' $DIRECTOR $D/ProvideDynamicDisk

  # the bosh CLI
  bosh alias-env mesh -e https://${layout.directorHttpsAddress} --ca-cert ${shellQuote(caFile)}
  export BOSH_ENVIRONMENT=mesh BOSH_CLIENT=${BOSH_USER} BOSH_CLIENT_SECRET=${boshPassword}
  bosh env && bosh deployments && bosh tasks --recent -a

  # the same without grpcurl
  npx @bufbuild/buf curl --protocol grpc ${flags("--")} https://$REGISTRY --list-services
  npx @bufbuild/buf curl --protocol grpc ${flags("--")} https://$REGISTRY/$R/ListDevices
`;
}

function shellQuote(path: string): string {
  const shown = relative(process.cwd(), path);
  const short = shown.startsWith("..") ? path : shown;
  return /^[\w./-]+$/.test(short) ? short : `'${short.replaceAll("'", `'\\''`)}'`;
}
