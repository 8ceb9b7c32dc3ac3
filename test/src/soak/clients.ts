import { DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  LockServiceDefinition,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import type { Client, ServiceDefinition } from "@diskmesh/rpc";
import type { ServiceGroup, ServiceName } from "../mesh/service-group.js";
import { type Measures, measured } from "./measures.js";

/** Short enough to find another leader within a fault. */
const LIMITS = { defaultDeadlineMs: 15_000 };

/** An operator's clients of everything, whose calls are measured when there is something to measure by. */
export function operatorClients(
  group: ServiceGroup,
  directors: readonly string[],
  registries: readonly string[],
  measures?: Measures,
) {
  const client = <Definition extends ServiceDefinition>(
    title: string,
    definition: Definition,
    service: ServiceName,
    names: readonly string[],
  ): Client<Definition> => {
    const bare = group.client(definition, service, { names, ...LIMITS });
    return measures === undefined ? bare : measured(bare, title, measures);
  };
  const ofDirector = <Definition extends ServiceDefinition>(title: string, definition: Definition) =>
    client(title, definition, "director", directors);
  return {
    registry: client("registry", DiskRegistryServiceDefinition, "disk-registry", registries),
    cpis: client("cpi", CpiServiceDefinition, "cpi-dispatcher", ["cpi-dispatcher"]),
    configs: ofDirector("configs", ConfigServiceDefinition),
    deployments: ofDirector("deployments", DeploymentServiceDefinition),
    disks: ofDirector("dynamic disks", DynamicDiskServiceDefinition),
    tasks: ofDirector("tasks", TaskServiceDefinition),
    locks: ofDirector("locks", LockServiceDefinition),
  };
}

/** By host. */
export function agentClients(group: ServiceGroup): ReadonlyMap<string, Client<typeof DiskAgentServiceDefinition>> {
  return new Map(
    group.hostIds.map((hostId) => [
      hostId,
      group.client(DiskAgentServiceDefinition, "disk-agent", { names: [hostId], ...LIMITS }),
    ]),
  );
}
