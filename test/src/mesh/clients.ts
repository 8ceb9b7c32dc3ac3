import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  EventServiceDefinition,
  LifecycleServiceDefinition,
  LockServiceDefinition,
  StemcellServiceDefinition,
  TaskServiceDefinition,
  VendorPassthruServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import { DiskRegistryServiceDefinition, FleetServiceDefinition } from "@diskmesh/api/registry";
import type { Client } from "@diskmesh/rpc";
import type { ServiceName } from "./plan.js";

const OF_REGISTRY = { registry: DiskRegistryServiceDefinition, fleet: FleetServiceDefinition };
const OF_DISPATCHER = { cpis: CpiServiceDefinition };
const OF_DIRECTOR = {
  configs: ConfigServiceDefinition,
  deployments: DeploymentServiceDefinition,
  disks: DynamicDiskServiceDefinition,
  events: EventServiceDefinition,
  lifecycle: LifecycleServiceDefinition,
  locks: LockServiceDefinition,
  stemcells: StemcellServiceDefinition,
  tasks: TaskServiceDefinition,
  vendors: VendorPassthruServiceDefinition,
  vms: VmServiceDefinition,
};

/** gRPC services that an operator may call. */
export const DEFINITIONS = {
  "disk-registry": OF_REGISTRY,
  "cpi-dispatcher": OF_DISPATCHER,
  director: OF_DIRECTOR,
} satisfies Partial<Record<ServiceName, object>>;

type All = typeof OF_REGISTRY & typeof OF_DISPATCHER & typeof OF_DIRECTOR;

/** Clients of an operator; each follows the leader of its service. */
export type Clients = { readonly [Name in keyof All]: Client<All[Name]> };
