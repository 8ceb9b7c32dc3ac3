import { type ChildProcess, execFile, spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { Health } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Context } from "mocha";
import { BUILD_TIMEOUT_MS, LANGUAGES, type Program, type Programs } from "./foreign-clients/languages.js";
import { wholeFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const CALLS_TIMEOUT_MS = 2 * 60_000;
/**
 * Time of four keepalives of a client that sends one every 10 s, the shortest that gRPC for Go and Java allow. Servers of
 * gRPC with the usual limit of pings close the connection at the third (GOAWAY, ENHANCE_YOUR_CALM).
 */
const KEEPALIVES_MS = 42_000;
const DEVICE = "host-1-device-1";

const ANSWERED = {
  Go: { health: "SERVING", refused: "InvalidArgument" },
  Python: { refused: "INVALID_ARGUMENT" },
  Java: { health: "SERVING", refused: "INVALID_ARGUMENT" },
};

describe("clients that others generate from proto/", function () {
  this.timeout(BUILD_TIMEOUT_MS);
  const built = new Map<string, Programs>();
  let mesh: TestMesh;

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(wholeFleet({ hosts: 1, devicesPerHost: 1, deviceSizeBytes: MIB_BYTES }));
    await mesh.clients.registry.addHost({ hostId: "host-1" });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const programs = async (test: Context, language: keyof typeof LANGUAGES): Promise<Programs> => {
    const made = built.get(language) ?? (await LANGUAGES[language](test, temporaryFolder()));
    built.set(language, made);
    return made;
  };

  for (const language of ["Go", "Python", "Java"] as const) {
    it(`in ${language} make calls, and read which field of a request is wrong`, async function () {
      const { command, env } = (await programs(this, language)).client;
      const [file, ...args] = [...command, mesh.address("disk-registry"), mesh.address("director"), ...credentials()];
      const options = { env: { ...process.env, ...env }, timeout: CALLS_TIMEOUT_MS };
      const { stdout } = await promisify(execFile)(file as string, args, options);
      expect(JSON.parse(stdout)).to.deep.equal({
        added: "ACTION_CODE_S_ALREADY",
        tasks: 0,
        details: { reason: "INVALID_ARGUMENT", field: "host_id" },
        ...ANSWERED[language],
      });
    });

    it(`in ${language} follow devices over keepalives, a cancelled stream, and restarts of the registry`, async function () {
      const { follow } = await programs(this, language);
      const follower = new Follower(follow, [mesh.address("disk-registry"), ...credentials()]);
      const told = ["snapshot_begin", "snapshot_end"];
      try {
        await follower.sees(Health.ONLINE, told);
        await delay(KEEPALIVES_MS);
        await changes(Health.WARNING);
        await follower.sees(Health.WARNING, told);

        follower.cancelStream();
        await changes(Health.ONLINE);
        told.push("ended cancelled");
        await follower.sees(Health.ONLINE, told);

        for (const end of ["stop", "kill"] as const) {
          const registry = mesh.process("disk-registry");
          await registry[end]();
          await registry.start();
          await changes(Health.WARNING);
          told.push("ended unavailable", "snapshot_begin", "snapshot_end");
          await follower.sees(Health.WARNING, told);
          await changes(Health.ONLINE);
          await follower.sees(Health.ONLINE, told);
        }
      } finally {
        await follower.end();
      }
    });
  }

  function credentials(): string[] {
    const { caFile, certFile, keyFile } = mesh.operatorFiles;
    return [caFile, certFile, keyFile];
  }

  async function changes(health: Health): Promise<void> {
    const reason = health === Health.ONLINE ? "" : "a test";
    await mesh.clients.registry.setDeviceState({ deviceIds: [DEVICE], health, reason });
  }
});

/** A client that follows the devices of a registry, and what it printed. */
class Follower {
  readonly #process: ChildProcess;
  readonly #closed: Promise<unknown>;
  #printed = "";

  constructor({ command: [file, ...first], env }: Program, args: readonly string[]) {
    this.#process = spawn(file, [...first, ...args], {
      env: { ...process.env, ...env },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#closed = new Promise((resolve) => this.#process.once("close", resolve));
    this.#process.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#printed += text;
    });
  }

  /** Waits until the device is seen with this health last, and all that was told of the streams is `told`. */
  async sees(health: Health, told: readonly string[]): Promise<void> {
    await eventually(() => {
      const lines = this.#printed.split("\n").slice(0, -1);
      const isOfDevice = (line: string) => line.startsWith(DEVICE);
      expect(lines.findLast(isOfDevice)).to.equal(`${DEVICE} ${health}`);
      const others = lines.filter((line) => !isOfDevice(line)).map((line) => line.toLowerCase());
      // A registry that stops may refuse a stream a few times.
      const streams = others.map((line) => line.replace("canceled", "cancelled"));
      expect(streams.filter((line, index) => line !== streams[index - 1])).to.deep.equal(told);
    });
  }

  cancelStream(): void {
    this.#process.stdin?.write("\n");
  }

  async end(): Promise<void> {
    this.#process.stdin?.end();
    await this.#closed;
  }
}
