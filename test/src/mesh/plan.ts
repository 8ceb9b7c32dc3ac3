import { join } from "node:path";
import type { TlsFiles } from "@diskmesh/rpc";
import type { NatsOptions, TestCertificates, WaitFor } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { makeDeviceFile } from "./device-files.js";

export type ServiceName = "director" | "cpi-dispatcher" | "disk-registry" | "disk-agent";

/** The processes of a mesh, and how they differ from the usual ones. */
export interface MeshPlan {
  /** Started in this order, agents last. */
  readonly processes: readonly ProcessPlan[];
  /** Names of other things that listen: each gets an address. */
  readonly listeners?: readonly string[];
  /** NATS runs although no director of the plan needs it. */
  readonly nats?: boolean;
  /** NATS lets in agents of VMs, whose ids nobody knows before they are made, all by one certificate. */
  readonly vmAgents?: boolean;
  /** The certificates of all processes and of the operator; those of the test process when absent. */
  readonly certificates?: TestCertificates;
  /** Where each of them listens; all on 127.0.0.1 when absent. */
  readonly places?: Places | undefined;
  /** Where services have their tablets; in folders of their own when absent. */
  readonly tablet?: ((service: string) => object) | undefined;
  /** The deadline of the operator's calls; 30 s when absent. */
  readonly deadlineMs?: number;
  /** Does what must be done before anything starts, and may answer how NATS knows its users. */
  readonly prepare?: (mesh: PlacedMesh) => Promise<NatsUsers | undefined>;
}

export type NatsUsers = Pick<NatsOptions, "authFile" | "caFile">;

/** A mesh before anything of it runs: where everything is and will be. */
export interface PlacedMesh {
  readonly plan: MeshPlan;
  readonly folder: string;
  readonly certificates: TestCertificates;
  readonly hasNats: boolean;
  /** The certificate of all agents of VMs. */
  readonly vmAgentFiles: TlsFiles;
  /** Where a process or NATS, as "nats", or another thing listens. */
  address(name: string): string;
  /** Where the processes of a service are. */
  addresses(service: ServiceName): string[];
  listen(name: string): { host: string; port: number };
  /** Where a service keeps its state. */
  dataFolder(name: string): string;
  /** Where the agent of a host keeps its exports and links. */
  baseFolder(hostId: string): string;
  deviceFile(hostId: string, index: number): string;
  /** Closes the object once the processes have ended; the last one added is closed first. */
  closeLater(one: { close(): void | Promise<void> }): void;
}

/** Addresses for processes by name, and what runs a process where it has its address. */
export interface Places {
  host(name: string): string;
  launcher(name: string): readonly string[];
}

type Environment = Readonly<Record<string, string>>;

export interface ProcessPlan {
  readonly service: ServiceName;
  /** The host, of an agent; the service when absent. */
  readonly name?: string;
  /**
   * Laid over what every process of the service has. A director, a registry or an agent with `tuning` in it takes limits
   * of the test: the program for tests runs it.
   */
  readonly config?: object | ((mesh: PlacedMesh) => object);
  /**
   * The condition of each start; when absent, the mesh's start waits until the process serves, and a restart waits for
   * no other process.
   */
  readonly waitFor?: WaitFor;
  readonly env?: Environment | ((mesh: PlacedMesh) => Environment);
  /** The program, of another version; that of the repository when absent. */
  readonly mainFile?: string;
  /** Runs the program and becomes it; that of its place when absent. */
  readonly launcher?: readonly string[] | ((mesh: PlacedMesh) => readonly string[]);
  /** Names of the registries that an agent asks; all of them when absent. */
  readonly registries?: readonly string[];
  /** Files that an agent has for devices. */
  readonly devices?: { readonly count: number; readonly sizeBytes: number };
}

export function nameOf({ name, service }: ProcessPlan): string {
  return name ?? service;
}

/** Returns the compiled program of this repository. */
export function programOf(service: ServiceName, config: object = {}): string {
  const program = "tuning" in config ? "testing/tuned-main.js" : "main.js";
  return join(repositoryFolder, "services", service, "dist", program);
}

/** Returns a service's usual config, over which the plan's own is laid. */
export function usualConfig(mesh: PlacedMesh, plan: ProcessPlan): object {
  const name = nameOf(plan);
  const tablet = mesh.plan.tablet?.(plan.service) ?? { storage: mesh.dataFolder(name) };
  switch (plan.service) {
    case "disk-registry":
      return { tablet };
    case "cpi-dispatcher":
      return {
        registry: { address: registriesOf(mesh) },
        executables: { jobsFolder: mesh.folder, runFolder: join(mesh.folder, "run") },
      };
    case "director":
      return {
        tablet,
        dispatcher: { address: mesh.addresses("cpi-dispatcher") },
        nats: { servers: [mesh.address("nats")] },
        dynamicDisks: { enabled: true },
      };
    case "disk-agent":
      return {
        ...agentConfig(mesh, name, plan),
        ...(plan.devices && { devices: deviceFiles(mesh, name, plan.devices) }),
      };
  }
}

function agentConfig(mesh: PlacedMesh, hostId: string, { registries }: ProcessPlan): object {
  return {
    hostId,
    az: "z1",
    rack: `rack-${hostId}`,
    registry: { address: registries?.map((name) => mesh.address(name)) ?? registriesOf(mesh) },
    baseFolder: mesh.baseFolder(hostId),
    ...(mesh.hasNats && {
      nats: { servers: [mesh.address("nats")], tls: mesh.certificates.files(`disk-agent-${hostId}`) },
    }),
  };
}

/** Nobody is there when the plan has none. */
function registriesOf(mesh: PlacedMesh): string[] {
  const addresses = mesh.addresses("disk-registry");
  return addresses.length === 0 ? ["127.0.0.1:1"] : addresses;
}

function deviceFiles(mesh: PlacedMesh, hostId: string, { count, sizeBytes }: { count: number; sizeBytes: number }) {
  return Array.from({ length: count }, (_, index) => ({
    deviceId: `${hostId}-device-${index + 1}`,
    path: makeDeviceFile(mesh.deviceFile(hostId, index), sizeBytes),
  }));
}

/** The part of a config by which a process tells its metrics there. */
export function metricsAt(port: number | undefined): { readonly metrics?: object } {
  return port === undefined ? {} : { metrics: { listen: { port } } };
}
