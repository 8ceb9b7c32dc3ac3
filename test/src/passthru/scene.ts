import { execFile } from "node:child_process";
import { promisify } from "node:util";
import {
  LockServiceDefinition,
  type MethodTarget,
  TaskOutputType,
  VendorPassthruServiceDefinition,
} from "@diskmesh/api/director";
import type { HttpAnswer, HttpClient } from "@diskmesh/director/testing";
import { type JsonObject, MIB_BYTES } from "@diskmesh/domain";
import { DRIVER_LIMITS } from "@diskmesh/driver/host";
import { OWN_USER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import type { Client } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { B, NODE } from "./rows.js";

const USERS = { admin: ["bosh.admin"], reader: ["bosh.read"], caller: ["bosh.vendor-methods.call"], nobody: [] };
export type User = keyof typeof USERS;

const RESTART = { minDelayMs: 50, maxDelayMs: 200 };

/** Entry of a driver in a config. */
interface DriverEntry {
  readonly package: string;
  readonly settings?: object;
}

const asOwnUser = (driver: DriverEntry): DriverEntry => ({ ...driver, ...OWN_USER });

export interface PassthruOptions {
  readonly hosts: number;
  readonly directorDrivers: readonly DriverEntry[];
  readonly agentDrivers: readonly DriverEntry[];
  /** Methods of each node once its drivers have started. */
  readonly methods: readonly string[];
  /** Maximum concurrent calls of each driver of the agents. */
  readonly maxConcurrentCalls?: number;
}

/** Nodes with the sample driver, for the stock clients. */
export const SAMPLE_NODES: PassthruOptions = {
  hosts: 2,
  directorDrivers: [{ package: SAMPLE_DRIVER }],
  agentDrivers: [{ package: SAMPLE_DRIVER }],
  methods: ["echo"],
};

/**
 * A mesh whose hosts are nodes with drivers, shared by the tests of a `describe`, and functions to call their methods.
 */
export class PassthruScene {
  mesh!: TestMesh;
  vendors!: Client<typeof VendorPassthruServiceDefinition>;
  locks!: Client<typeof LockServiceDefinition>;

  /** Must be called within a `describe`. */
  static forAllTests(options: PassthruOptions): PassthruScene {
    const scene = new PassthruScene();
    before(() => scene.#start(options));
    after(() => scene.mesh?.[Symbol.asyncDispose]());
    return scene;
  }

  async #start(options: PassthruOptions): Promise<void> {
    const { hosts, directorDrivers, agentDrivers, methods, maxConcurrentCalls = 64 } = options;
    const limits = {
      ...DRIVER_LIMITS,
      maxConcurrentCalls,
      maxTurnProcessorMs: 2_000,
      syncTimeoutMs: 100_000,
      restart: RESTART,
    };
    this.mesh = await TestMesh.start(
      wholeFleet({
        hosts,
        devicesPerHost: 1,
        deviceSizeBytes: MIB_BYTES,
        httpUsers: USERS,
        overrides: {
          "disk-registry": { heartbeat: { intervalMs: 500, timeoutMs: 120_000, missedUntilSuspected: 200 } },
          director: { drivers: directorDrivers.map(asOwnUser), tuning: { http: { requestTimeoutMs: 120_000 } } },
          "disk-agent": { drivers: agentDrivers.map(asOwnUser), tuning: { drivers: limits } },
        },
      }),
    );
    this.vendors = this.mesh.client(VendorPassthruServiceDefinition, "director");
    this.locks = this.mesh.client(LockServiceDefinition, "director");
    await eventually(() => addHosts(this.mesh));
    for (const nodeId of this.mesh.hostIds)
      await eventually(async () => {
        const { methods: there } = await this.vendors.listMethods({ target: nodeTarget(nodeId) });
        expect(there.map(({ name }) => name)).to.include.members(methods);
      });
  }

  http(user: User): HttpClient {
    return this.mesh.http(user);
  }

  /** Address of the HTTPS API. */
  get endpoint(): string {
    return `https://127.0.0.1:${this.http("admin").port}`;
  }

  get caFile(): string {
    return this.mesh.operatorFiles.caFile;
  }

  /** Runs OpenStack's client `baremetal`, as admin unless `env` has another login. */
  async baremetal(command: string, env: object = {}): Promise<{ readonly stdout: string; readonly stderr: string }> {
    const login = { OS_AUTH_TYPE: "http_basic", OS_USERNAME: "admin", OS_PASSWORD: "pw-admin" };
    const place = { PATH: process.env.PATH, OS_ENDPOINT: this.endpoint, OS_CACERT: this.caFile };
    const options = { env: { ...place, ...login, ...env } };
    return promisify(execFile)("baremetal", command.split(" "), options).catch((error) => error);
  }

  /** Sends an HTTP request as admin. */
  send(
    verb: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<HttpAnswer> {
    const text = typeof body === "string" || body === undefined ? body : JSON.stringify(body);
    return this.http("admin").send(verb, path, { headers, ...(text !== undefined && { body: text }) });
  }

  async state(): Promise<{ readonly last_error: string | null; readonly reservation: string | null }> {
    return JSON.parse((await this.send("GET", B.slice(0, B.lastIndexOf("/")))).body);
  }

  ended(taskId: number) {
    return eventually(async () => {
      const { task } = await this.mesh.clients.tasks.getTask({ taskId });
      if (task?.endTime === undefined) throw new Error(`task ${taskId} is ${task?.state}`);
      return task;
    });
  }

  /** Starts an async call that holds the node's lock for `ms`. Returns its task. */
  async sleeping(ms: number): Promise<number> {
    const { outcome } = await this.vendors.callMethod({ target: nodeTarget(), method: "sleep_async", args: { ms } });
    if (outcome?.$case !== "task") throw new Error("no task");
    const { taskId } = outcome.value;
    await eventually(async () => {
      const { task } = await this.mesh.clients.tasks.getTask({ taskId });
      expect(task?.state).to.equal("TASK_STATE_PROCESSING");
    });
    return taskId;
  }

  /** Waits until the task's method has been called, so that it is running afterwards. */
  async called(taskId: number): Promise<void> {
    await eventually(async () => {
      const { lines } = await this.mesh.clients.tasks.getTaskOutput({ taskId, type: TaskOutputType.EVENT });
      expect(lines.join()).to.contain("Calling vendor method");
    });
  }

  /** Kills a process and starts it again. */
  restart(name: string): Promise<void> {
    return this.mesh.process(name).restart();
  }
}

export function nodeTarget(nodeId = NODE): MethodTarget {
  return { target: { $case: "nodeId", value: nodeId } };
}

/** Returns the error in an answer's envelope. */
export function faultOf({ body }: HttpAnswer): JsonObject {
  const { error_message } = JSON.parse(body) as { readonly error_message: string };
  return JSON.parse(error_message) as JsonObject;
}

/** Returns the id of the task in a 202 answer. */
export function taskOf({ headers }: HttpAnswer): number {
  return Number(String(headers.location).split("/").at(-1));
}
