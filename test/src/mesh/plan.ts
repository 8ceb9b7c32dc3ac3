import { join } from "node:path";
import type { TlsFiles } from "@diskmesh/rpc";
import type { NatsOptions, TestCertificates, WaitFor } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { makeDeviceFile } from "./device-files.js";

export type ServiceName = "director" | "cpi-dispatcher" | "disk-registry" | "disk-agent";

/** Processes of a mesh, and changes to their usual configs. */
export interface MeshPlan {
  /** Processes in the order of their start, agents last. */
  readonly processes: readonly ProcessPlan[];
  /** Names of other listeners; each gets an address. */
  readonly listeners?: readonly string[];
  /** True starts NATS even when no director of the plan needs it. */
  readonly nats?: boolean;
  /** True lets NATS admit agents of VMs, whose ids are not known beforehand. They share one certificate. */
  readonly vmAgents?: boolean;
  /** Certificates of all processes and of the operator; those of the test process by default. */
  readonly certificates?: TestCertificates;
  /** Returns the host address of a process; 127.0.0.1 for all by default. */
  readonly hostOf?: (name: string) => string;
  /** Returns the `tablet` config of a service; separate folders by default. */
  readonly tablet?: ((service: string) => object) | undefined;
  /** Deadline in ms of the operator's calls; 30 s by default. */
  readonly deadlineMs?: number;
  /** Runs before anything starts. May return how NATS authenticates its users. */
  readonly prepare?: (mesh: PlacedMesh) => Promise<NatsUsers | undefined>;
}

/** Listener of the director's HTTPS API. */
export const HTTPS = "https";

export type NatsUsers = Pick<NatsOptions, "authFile" | "caFile">;

/** A mesh before its processes run: its addresses and folders. */
export interface PlacedMesh {
  readonly plan: MeshPlan;
  readonly folder: string;
  readonly certificates: TestCertificates;
  readonly hasNats: boolean;
  /** Certificate of all agents of VMs. */
  readonly vmAgentFiles: TlsFiles;
  /** Returns the address of a process, of "nats", or of another listener. */
  address(name: string): string;
  /** Returns the addresses of a service's processes. */
  addresses(service: ServiceName): string[];
  listen(name: string): { host: string; port: number };
  /** Returns the folder of a process's state. */
  dataFolder(name: string): string;
  /** Returns the folder of a host's agent, with its exports and links. */
  baseFolder(hostId: string): string;
  deviceFile(hostId: string, index: number): string;
  /** Closes the object after the processes have ended, in reverse order. */
  closeLater(one: { close(): void | Promise<void> }): void;
}

type Environment = Readonly<Record<string, string>>;

export interface ProcessPlan {
  readonly service: ServiceName;
  /** Host of an agent; the service's name by default. */
  readonly name?: string;
  /**
   * Merged over the service's usual config. With `tuning` in it, a director, registry or agent runs the program for
   * tests, which takes limits from it.
   */
  readonly config?: object | ((mesh: PlacedMesh) => object);
  /**
   * Condition that ends each start. By default the start of the mesh waits until the process serves, and a restart
   * waits for no other process.
   */
  readonly waitFor?: WaitFor;
  readonly env?: Environment | ((mesh: PlacedMesh) => Environment);
  /** Main file of another version's program; the repository's by default. */
  readonly mainFile?: string;
  /** Returns the launcher of the program; none by default. */
  readonly launcher?: (mesh: PlacedMesh) => readonly string[];
  /** Names of the registries that an agent uses; all by default. */
  readonly registries?: readonly string[];
  /** Device files of an agent. */
  readonly devices?: { readonly count: number; readonly sizeBytes: number };
}

export function nameOf({ name, service }: ProcessPlan): string {
  return name ?? service;
}

/** Returns the main file of the compiled program in this repository. */
export function programOf(service: ServiceName, config: object = {}): string {
  const program = "tuning" in config ? "testing/tuned-main.js" : "main.js";
  return join(repositoryFolder, "services", service, "dist", program);
}

/** Returns a service's usual config, over which the plan's config is merged. */
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
    engine: "node",
    ...(mesh.hasNats && {
      nats: { servers: [mesh.address("nats")], tls: mesh.certificates.files(`disk-agent-${hostId}`) },
    }),
  };
}

/** Returns the addresses of the registries, or an address without a listener when the plan has no registry. */
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

/** Returns the part of a config that serves metrics at this port. */
export function metricsAt(port: number | undefined): { readonly metrics?: object } {
  return port === undefined ? {} : { metrics: { listen: { port } } };
}
