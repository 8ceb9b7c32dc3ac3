import { chmodSync, renameSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ExplainResponse } from "@diskmesh/api/common";
import { type HttpClient, OpenPage } from "@diskmesh/director/testing";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import type { WhyAnswer } from "@diskmesh/page/rows";
import { Drive, eventually, freePort } from "@diskmesh/testkit";
import { ADMIN, wholeFleet } from "../mesh/fleets.js";
import { addHosts, changeDevices, deployInstances, devicesReady } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import type { Ended } from "../mesh/type-command.js";
import { done } from "../mesh/typed-lines.js";
import { AlertWatch } from "../metrics/alert-watch.js";

const SERVICES = ["director", "cpi-dispatcher", "disk-registry"] as const;
const HOSTS = 10;
/** Host that has not been added. */
export const NOT_ADDED = `host-${HOSTS}`;
const DRIVE_HOST = "host-8";
const DRIVE_POOL = "drive";
const FULL_HOST = "host-1";
/** Free space in MiB until all hosts are added, without the disk that fills one host. */
export const FREE_MIB = HOSTS - 2;
const INFO = `'{"result":{"api_version":2,"needs_vm_spec":false},"error":null,"log":""}'`;
const AGENT_TUNING = { mbusHeartbeatIntervalMs: 500 };

/**
 * Time in ms for which a process is stopped: longer than an event loop may be late, and shorter than callers wait for a
 * director.
 */
const STANDS_STILL_MS = 800;
/**
 * Pause in ms before a stop. The delay metric samples every 20 ms, and a late sample counts only after an earlier one
 * and as more than a hundredth of all samples.
 */
const ON_TIME_MS = 200;

const jobOf = (name: string) => `diskmesh-${SERVICES.find((service) => service === name) ?? "disk-agent"}`;

interface DriveOfHost {
  readonly drive: Drive;
  readonly hostId: string;
  readonly deviceId: string;
}

/** Sends a request over its own connection, and waits for the answer. */
function answered(port: number, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, path, agent: false }, (response) => {
      response.on("end", resolve).on("error", reject).resume();
    }).on("error", reject);
  });
}

/** A mesh of ten hosts with three CPIs, with the command and the page. */
export class StuckFleet implements AsyncDisposable {
  #page: OpenPage | undefined;
  #drive: Drive | undefined;

  private constructor(
    readonly mesh: TestMesh,
    private readonly metricsPorts: ReadonlyMap<string, number>,
    private readonly http: HttpClient,
    /** Instance of each host's VM, in the order of hosts. */
    readonly instanceIds: readonly string[],
  ) {}

  static async start(): Promise<StuckFleet> {
    const hostIds = Array.from({ length: HOSTS }, (_, index) => `host-${index + 1}`);
    const metricsPorts = new Map<string, number>();
    for (const name of [...SERVICES, ...hostIds]) metricsPorts.set(name, await freePort());
    const mesh = await TestMesh.start(
      wholeFleet({
        hosts: HOSTS,
        devicesPerHost: 1,
        deviceSizeBytes: MIB_BYTES,
        httpUsers: ADMIN,
        metricsPorts,
        overrides: {
          director: {
            tuning: {
              page: { stuckAfterMs: 1_000 },
              agents: {
                requestTimeoutMs: 1_000,
                attachTimeoutMs: 1_500,
                detachTimeoutMs: 500,
                unresponsiveAfterMs: 4_000,
              },
            },
          },
          "disk-agent": { tuning: AGENT_TUNING },
        },
      }),
    );
    try {
      const added = { ...mesh, hostIds: mesh.hostIds.filter((hostId) => hostId !== NOT_ADDED) };
      await addHosts(added);
      await devicesReady(added);
      const stuck = new StuckFleet(mesh, metricsPorts, mesh.http(), await deployInstances(mesh));
      await stuck.#configure();
      // The disk of the first host's VM is on other hosts, which can answer while that host does not.
      await mesh.clients.registry.createDisk({ diskId: "filler", hostId: FULL_HOST, sizeBytes: MIB_BYTES });
      return stuck;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Returns a watch of firing alerts. `slowedJob` adds alerts about delays of that process. */
  alerts(slowedJob?: string): AlertWatch {
    const targets = [...this.metricsPorts].map(([name, port]) => ({ job: jobOf(name), port }));
    return new AlertWatch(targets, slowedJob);
  }

  /** Stops a process for longer than it may be late; the next scrape of its metrics shows that. */
  async standStill(name: string): Promise<void> {
    const port = this.metricsPorts.get(name) ?? 0;
    const process = this.mesh.process(name);
    // A scrape starts the next interval of the metrics.
    await answered(port, "/metrics");
    await delay(ON_TIME_MS);
    process.signal("SIGSTOP");
    await delay(STANDS_STILL_MS);
    process.signal("SIGCONT");
    // The answer proves that the process has taken another sample.
    await answered(port, "/nothing");
  }

  /** Runs an operator's command line, with or without the command's name. */
  async typed(line: string): Promise<Ended> {
    return this.mesh.typed(...line.replace(/^diskmesh /, "").split(" "));
  }

  /** Runs a command line, and repeats it until its exit code is 0. */
  done(line: string): Promise<string> {
    return done(this.mesh, line);
  }

  async why(kind: string, name: string): Promise<ExplainResponse> {
    return JSON.parse(await this.done(`why ${kind} ${name} --json`)) as ExplainResponse;
  }

  async pageWhy(kind: string, name: string): Promise<WhyAnswer> {
    return (await this.http.json(`/page/why?${new URLSearchParams({ kind, name })}`)) as WhyAnswer;
  }

  /** Returns a row of the page as an open browser gets it through updates. */
  pageRow(key: string): Readonly<Record<string, unknown>> | null | undefined {
    this.#page ??= new OpenPage(this.http);
    return this.#page.rows.get(key);
  }

  /** Returns the id of the latest task. */
  async lastTask(): Promise<string> {
    const [task] = JSON.parse(await this.done("tasks --recent --json")) as { taskId: number }[];
    return String(task?.taskId);
  }

  /** Starts a deployment of one VM, and returns its task. */
  async deploy(name: string, az: string): Promise<string> {
    const manifest = `name: ${name}\ninstance_groups:\n- { name: vm, instances: 1, azs: [${az}] }\n`;
    const { task } = await this.mesh.clients.deployments.deploy({ manifest });
    return String(task?.taskId);
  }

  /** Forgets the possible orphans of interrupted calls, none of which exists. */
  async forgetOrphans(): Promise<void> {
    const { deployments } = this.mesh.clients;
    const { possibleOrphans } = await deployments.listPossibleOrphans({});
    for (const { token } of possibleOrphans) await deployments.forgetPossibleOrphan({ token });
  }

  cpiFile(name: string): string {
    return join(this.mesh.folder, `cpi-${name}`);
  }

  /** Writes a CPI script that answers `info`, and runs `otherwise` for other methods. */
  writeCpi(name: string, otherwise: string): void {
    const script = `#!/bin/sh\ncase "$(cat)" in '{"method":"info"'*) echo ${INFO} ;; *) ${otherwise} ;; esac\n`;
    writeFileSync(this.cpiFile(name), script);
    chmodSync(this.cpiFile(name), 0o755);
  }

  /** Starts a host's agent with another certificate. Returns the certificate's paths. */
  async withCertificate(hostId: string, certificate: { readonly certPem: string; readonly keyPem: string }) {
    const { mesh } = this;
    const { caFile } = mesh.certificates.files(`disk-agent-${hostId}`);
    const [certFile, keyFile] = [join(mesh.folder, `${hostId}-cert.pem`), join(mesh.folder, `${hostId}-key.pem`)];
    const tls = { caFile, certFile, keyFile };
    this.writeCertificate(tls, certificate);
    // The agent's health cannot be checked with that certificate.
    const agent = mesh.process(hostId);
    await agent.restart({ ...agent.config, tls }, "nothing");
    return tls;
  }

  /** Writes all files at once, like a tool that renews certificates. */
  writeCertificate(
    { certFile, keyFile }: { readonly certFile: string; readonly keyFile: string },
    { certPem, keyPem }: { readonly certPem: string; readonly keyPem: string },
  ): void {
    for (const [file, text] of [
      [keyFile, keyPem],
      [certFile, certPem],
    ] as const) {
      writeFileSync(`${file}.next`, text, { mode: 0o600 });
      renameSync(`${file}.next`, file);
    }
  }

  /** Gives a host's agent a device, alone in its pool, on a drive that can fail or hang. */
  async withDrive(): Promise<DriveOfHost> {
    const deviceId = `${DRIVE_HOST}-drive`;
    if (this.#drive === undefined) {
      this.#drive = await Drive.open(join(this.mesh.folder, "drive"), MIB_BYTES);
      const onDrive = { deviceId, path: this.#drive.path, pool: DRIVE_POOL };
      await changeDevices(this.mesh, DRIVE_HOST, (devices) => [...devices, onDrive]);
      await this.done(`why device ${deviceId}`);
      // A file on FUSE has no birth time, and therefore no identity.
      await this.done(`add-device ${DRIVE_HOST} ${deviceId} --accept-unidentified --wait`);
    }
    await devicesReady({ ...this.mesh, hostIds: [DRIVE_HOST] });
    return { drive: this.#drive, hostId: DRIVE_HOST, deviceId };
  }

  /** Opens a disk on that drive, published to the drive's own host. */
  async openDiskOnDrive(diskId: string): Promise<NbdClient> {
    const { registry } = this.mesh.clients;
    const request = { diskId, hostId: DRIVE_HOST, pool: DRIVE_POOL, sizeBytes: MIB_BYTES };
    await eventually(() => registry.createDisk(request));
    const { disk } = await registry.publishDisk({ diskId, hostId: DRIVE_HOST });
    return NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#page?.close();
    this.#drive?.resume();
    await this.mesh[Symbol.asyncDispose]();
    await this.#drive?.close();
  }

  /** Configures the fleet CPI, a CPI that answers only `info`, and a CPI whose executable is missing. */
  async #configure(): Promise<void> {
    const { configs } = this.mesh.clients;
    const scripts = ["hangs", "gone"].map(
      (name) => `- { name: ${name}, type: script, exec_path: ${this.cpiFile(name)} }\n`,
    );
    this.writeCpi("hangs", "sleep 600");
    const address = this.mesh.address("disk-registry");
    const fleet = `- { name: fleet, type: fleet, properties: { registry_address: "${address}" } }\n`;
    await configs.updateConfig({ type: "cpi", content: `cpis:\n${fleet}${scripts.join("")}` });
    const azs = ["hangs", "gone"].map((name) => `- { name: az-${name}, cpi: ${name} }\n`).join("");
    const content = `azs:\n- { name: z1, cpi: fleet }\n${azs}disk_types:\n- { name: default, disk_size: 1 }\n`;
    await configs.updateConfig({ type: "cloud", content });
  }
}
