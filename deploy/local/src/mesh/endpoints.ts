import { replaceFile } from "@diskmesh/atomic-file";
import { agentName, HOSTS, type MeshLayout, type ServiceName } from "./layout.js";

/** Writes the addresses of all processes, for scripts. */
export async function writeEndpoints(layout: MeshLayout): Promise<void> {
  const metricsOf = (name: string): string => `http://${layout.metricsAddresses.get(name)}/metrics`;
  const of = (name: ServiceName) => ({ grpc: layout.addressOf(name), metrics: metricsOf(name) });
  const endpoints = {
    director: { ...of("director"), https: layout.directorHttpsAddress },
    page: layout.pageAddress,
    "cpi-dispatcher": of("cpi-dispatcher"),
    "disk-registry": of("disk-registry"),
    "disk-agents": Object.fromEntries(
      HOSTS.map(({ hostId }) => [
        hostId,
        {
          grpc: layout.agentAddress(hostId),
          metrics: metricsOf(agentName(hostId)),
          base_folder: layout.dataFolder(agentName(hostId)),
        },
      ]),
    ),
    nats: { tls: layout.natsAddress },
  };
  await replaceFile(layout.endpointsFile, `${JSON.stringify(endpoints, null, 2)}\n`);
}
