import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  TaskServiceDefinition,
} from "@diskmesh/api/director";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import type { MeshLayout } from "./layout.js";

const DEADLINE_MS = 30_000;

/** Creates clients with the operator's certificate. */
export function operatorClients(layout: MeshLayout) {
  const tls = layout.tlsFiles("operator");
  const director = {
    address: layout.addressOf("director"),
    tls,
    serverRole: "director",
    defaultDeadlineMs: DEADLINE_MS,
  } as const;
  const registry = {
    address: layout.addressOf("disk-registry"),
    tls,
    serverRole: "disk-registry",
    defaultDeadlineMs: DEADLINE_MS,
  } as const;
  const clients = {
    registry: createClient(DiskRegistryServiceDefinition, registry),
    configs: createClient(ConfigServiceDefinition, director),
    deployments: createClient(DeploymentServiceDefinition, director),
    disks: createClient(DynamicDiskServiceDefinition, director),
    tasks: createClient(TaskServiceDefinition, director),
  };
  const close = () => {
    for (const client of Object.values(clients)) client.close();
  };
  return { ...clients, close };
}

export type OperatorClients = ReturnType<typeof operatorClients>;
