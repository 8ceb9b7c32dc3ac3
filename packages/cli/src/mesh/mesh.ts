import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AdminServiceDefinition } from "@diskmesh/api/common";
import { CpiServiceDefinition } from "@diskmesh/api/cpi";
import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  EventServiceDefinition,
  LockServiceDefinition,
  SnapshotServiceDefinition,
  TaskServiceDefinition,
  VendorPassthruServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import {
  DiskRegistryServiceDefinition,
  FleetServiceDefinition,
  JoinTokenServiceDefinition,
} from "@diskmesh/api/registry";
import { hostPortOf, InvalidArgumentError, isJsonObject, messageOf, quoted } from "@diskmesh/domain";
import { type Client, createClient, type ServiceDefinition, type TlsFiles } from "@diskmesh/rpc";
import { UsageError } from "../output/exit-codes.js";
import { refuseChangeable, refuseFolderOfOthers, refuseOpenKey } from "./trusted-files.js";

export const SERVICES = ["director", "cpi-dispatcher", "disk-registry"] as const;
export type ServiceName = (typeof SERVICES)[number];

/**
 * Variables with the services' addresses when no state folder has them. A value is an address or a comma-separated list
 * of all processes' addresses.
 */
const ADDRESS_VARIABLES: Readonly<Record<ServiceName, string>> = {
  director: "DISKMESH_DIRECTOR",
  "cpi-dispatcher": "DISKMESH_DISPATCHER",
  "disk-registry": "DISKMESH_REGISTRY",
};
const FILE_VARIABLES = { caFile: "DISKMESH_CA", certFile: "DISKMESH_CERT", keyFile: "DISKMESH_KEY" } as const;
const OPERATOR_FILES = { caFile: "ca.pem", certFile: "operator.pem", keyFile: "operator-key.pem" } as const;
const STATE_FOLDER = ".diskmesh";
const CALL_DEADLINE_MS = 30_000;

export interface MeshOptions {
  /** The folder of `npm start`; by default the nearest `.diskmesh` in the working folder or its parents. */
  readonly state: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
  /** Default deadline of a call; 30 s when absent. */
  readonly callDeadlineMs?: number | undefined;
}

/** The clients of the services, each created on first use. */
export class Mesh {
  readonly #options: MeshOptions;
  readonly #clients = new Map<string, { close(): void }>();
  #endpoints: Readonly<Record<string, unknown>> | undefined;

  constructor(options: MeshOptions) {
    this.#options = options;
  }

  get registry() {
    return this.#client(DiskRegistryServiceDefinition, "disk-registry");
  }

  get fleet() {
    return this.#client(FleetServiceDefinition, "disk-registry");
  }

  get joinTokens() {
    return this.#client(JoinTokenServiceDefinition, "disk-registry");
  }

  get disks() {
    return this.#client(DynamicDiskServiceDefinition, "director");
  }

  get deployments() {
    return this.#client(DeploymentServiceDefinition, "director");
  }

  get configs() {
    return this.#client(ConfigServiceDefinition, "director");
  }

  get tasks() {
    return this.#client(TaskServiceDefinition, "director");
  }

  get locks() {
    return this.#client(LockServiceDefinition, "director");
  }

  get snapshots() {
    return this.#client(SnapshotServiceDefinition, "director");
  }

  get vms() {
    return this.#client(VmServiceDefinition, "director");
  }

  get passthru() {
    return this.#client(VendorPassthruServiceDefinition, "director");
  }

  /** Returns the CPI client of a single process of the dispatcher. */
  cpisAt(address: string) {
    return this.#client(CpiServiceDefinition, "cpi-dispatcher", [address]);
  }

  get events() {
    return this.#client(EventServiceDefinition, "director");
  }

  admin(service: ServiceName) {
    return this.#client(AdminServiceDefinition, service);
  }

  /** Returns the admin client of a single process of the service. */
  adminAt(service: ServiceName, address: string) {
    return this.#client(AdminServiceDefinition, service, [address]);
  }

  /** Returns the health client of a single process of the service. */
  health(service: ServiceName, address: string) {
    return this.#client(HealthDefinition, service, [address]);
  }

  addresses(service: ServiceName): string[] {
    const { environment } = this.#options;
    const variable = ADDRESS_VARIABLES[service];
    const given = environment[variable];
    const addresses = given ? given.split(",") : [this.#addressInState(service)];
    for (const address of addresses)
      if (hostPortOf(address) === undefined) throw new UsageError(`${variable}: ${quoted(address)} is not HOST:PORT`);
    return addresses;
  }

  close(): void {
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
  }

  #client<Definition extends ServiceDefinition>(
    definition: Definition,
    service: ServiceName,
    address = this.addresses(service),
  ): Client<Definition> {
    const key = `${definition.fullName} ${address}`;
    let client = this.#clients.get(key) as Client<Definition> | undefined;
    if (client === undefined) {
      const tls = this.#tlsFiles();
      const { callDeadlineMs: defaultDeadlineMs = CALL_DEADLINE_MS } = this.#options;
      try {
        client = createClient(definition, { address, tls, serverRole: service, defaultDeadlineMs });
      } catch (error) {
        // The TLS files are unusable; no service was called.
        throw error instanceof InvalidArgumentError ? new UsageError(error.message) : error;
      }
      this.#clients.set(key, client);
    }
    return client;
  }

  #addressInState(service: ServiceName): string {
    this.#endpoints ??= this.#readEndpoints();
    const found = this.#endpoints[service];
    if (isJsonObject(found) && typeof found.grpc === "string") return found.grpc;
    throw new UsageError(`endpoints.json has no address of the ${service}: set ${ADDRESS_VARIABLES[service]}`);
  }

  #readEndpoints(): Readonly<Record<string, unknown>> {
    const file = join(this.#stateFolder(), "endpoints.json");
    refuseChangeable(file);
    try {
      const endpoints: unknown = JSON.parse(readFileSync(file, "utf8"));
      if (isJsonObject(endpoints)) return endpoints;
      throw new Error("it is not an object");
    } catch (error) {
      throw new UsageError(`cannot read the addresses of the services: ${messageOf(error)}; is the mesh running?`);
    }
  }

  #tlsFiles(): TlsFiles {
    const { environment } = this.#options;
    const fileOf = (name: keyof typeof FILE_VARIABLES): string =>
      environment[FILE_VARIABLES[name]] || join(this.#stateFolder(), "certs", OPERATOR_FILES[name]);
    const files = { caFile: fileOf("caFile"), certFile: fileOf("certFile"), keyFile: fileOf("keyFile") };
    refuseOpenKey(files.keyFile);
    for (const file of [files.caFile, files.certFile]) refuseChangeable(file);
    return files;
  }

  #stateFolder(): string {
    const { state, environment, workingFolder } = this.#options;
    const given = state ?? environment.DISKMESH_STATE;
    if (given) return resolve(workingFolder, given);
    for (let folder = resolve(workingFolder); ; folder = dirname(folder)) {
      const found = join(folder, STATE_FOLDER);
      if (existsSync(found)) {
        refuseFolderOfOthers(found);
        return found;
      }
      if (folder === dirname(folder)) break;
    }
    const variables = [...Object.values(ADDRESS_VARIABLES), ...Object.values(FILE_VARIABLES)].join(", ");
    throw new UsageError(`no ${STATE_FOLDER} here or above: give --state FOLDER of \`npm start\`, or set ${variables}`);
  }
}
