import { replaceFile } from "@diskmesh/atomic-file";
import { agentName, HOSTS, type MeshLayout } from "./layout.js";

/** Writes where everything serves, for scripts. */
export async function writeEndpoints(layout: MeshLayout): Promise<void> {
  const endpoints = {
    director: { grpc: layout.addressOf("director"), https: layout.directorHttpsAddress },
    "cpi-dispatcher": { grpc: layout.addressOf("cpi-dispatcher") },
    "disk-registry": { grpc: layout.addressOf("disk-registry") },
    "disk-agents": Object.fromEntries(
      HOSTS.map(({ hostId }) => [
        hostId,
        { grpc: layout.agentAddress(hostId), base_folder: layout.dataFolder(agentName(hostId)) },
      ]),
    ),
    nats: { tls: layout.natsAddress },
  };
  await replaceFile(layout.endpointsFile, `${JSON.stringify(endpoints, null, 2)}\n`);
}
