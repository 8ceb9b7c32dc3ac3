import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { silentLogger } from "@diskmesh/domain";
import { skipWithout } from "@diskmesh/domain/testing";
import { eventually, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { ControlGroup } from "./control-group.js";
import { DRIVER_LIMITS, DriverHost, type DriverHostOptions, driversConfig } from "./host.js";
import { HOSTILE_DRIVER } from "./testing/index.js";

/** A user without rights: `nobody` of most systems. */
const USER = "65534";

async function startHost(user: string | undefined, more: Partial<DriverHostOptions> = {}) {
  const host = new DriverHost({
    drivers: driversConfig.parse([{ package: HOSTILE_DRIVER, ...(user !== undefined && { user }) }]),
    limits: { ...DRIVER_LIMITS, restart: { minDelayMs: 20, maxDelayMs: 50 } },
    random: Math.random,
    log: silentLogger,
    ...more,
  });
  await host.settled();
  const call = (method: string, args: object = {}): Promise<unknown> =>
    host.call("hostile", {
      ...{ kind: "node", method, httpMethod: "POST", args: args as never, nodeId: "host-1", validateOnly: false },
      ...{ timeoutMs: 60_000, signal: new AbortController().signal },
    });
  return { host, call };
}

interface Seen {
  readonly [what: string]: unknown;
  readonly files: Readonly<Record<string, string>>;
  readonly descriptors: readonly string[];
}

const ONLY_ROOT = "only root starts a process as another user";

/** A service that prints what its hostile driver sees and left behind, and closes its host when its input ends. */
const serviceOf = (driver: object): string => `
import { DriverHost } from ${JSON.stringify(new URL("./host.js", import.meta.url))};
import { readFileSync } from "node:fs";
const log = { debug() {}, info() {}, warn() {}, error() {} };
const drivers = [${JSON.stringify({ package: HOSTILE_DRIVER, settings: {}, ...driver })}];
const host = new DriverHost({ drivers, random: Math.random, log });
await host.settled();
const rest = { httpMethod: "POST", nodeId: "", validateOnly: false, timeoutMs: 60_000, signal: new AbortController().signal };
const call = (method, args) => host.call("hostile", { kind: "node", method, args, ...rest });
const look = await call("look", { files: [] });
const { pid } = await call("escape", {});
while (readFileSync(\`/proc/\${pid}/comm\`, "latin1") !== "sleep\\n") await new Promise((wake) => setTimeout(wake, 10));
console.log(JSON.stringify({ pid, look }));
process.stdin.on("end", () => void host.close()).resume();
`;

async function saidBy(service: ChildProcess): Promise<{ readonly pid: number; readonly look: Seen }> {
  const ended = once(service, "exit").then(() => Promise.reject(new Error("the service ended at once")));
  const [text] = (await Promise.race([once(service.stdout as Readable, "data"), ended])) as [Buffer];
  ended.catch(() => undefined);
  return JSON.parse(String(text)) as { pid: number; look: Seen };
}

const isThere = (pid: number): boolean => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.[0] !== "Z";
  } catch {
    return false;
  }
};

describe("the rights of a driver", () => {
  describe("with a user of its own", () => {
    let it_: Awaited<ReturnType<typeof startHost>>;
    let seen: Seen;
    let files: string[];
    let cache: string;

    before(async function () {
      if (process.getuid?.() !== 0) return skipBecause(this, ONLY_ROOT);
      const folder = temporaryFolder();
      chmodSync(folder, 0o755);
      cache = join(folder, "cache.json");
      writeFileSync(cache, "{}", { mode: 0o600 });
      mkdirSync(join(folder, "exports"), { mode: 0o700 });
      writeFileSync(join(folder, "exports/socket"), "", { mode: 0o666 });
      files = [
        cache,
        join(folder, "exports/socket"),
        ...["environ", "mem", "maps", "fd/0"].map((file) => `/proc/SERVICE/${file}`),
      ];
      it_ = await startHost(USER);
      expect(it_.host.drivers()[0]?.problem).to.equal("");
      seen = (await it_.call("look", { files })) as Seen;
    });
    after(() => it_?.host.close());

    it("it has no other group, no capability, and gains none by a program", () => {
      expect(seen).to.include({
        ...{ user: "65534\t65534\t65534\t65534", groups: "" },
        ...{ capabilities: "0000000000000000", noNewPrivileges: "1" },
      });
    });

    it("it reads no file, socket, memory or environment of its service, and cannot signal it", () => {
      expect(seen.files).to.deep.equal(Object.fromEntries(files.map((file) => [file, "EACCES"])));
      expect(seen.signal).to.equal("EPERM");
    });

    it("it inherits no descriptor but its pipes", async () => {
      const known = /^(pipe:|socket:|anon_inode:|\/dev\/null$|\/proc\/)/;
      // A worker thread of the driver may just be reading its own code.
      await eventually(async () => {
        const { descriptors } = (await it_.call("look", { files: [] })) as Seen;
        expect(descriptors.filter((each) => !known.test(each))).to.deep.equal([]);
      });
    });
  });

  it("a user that does not exist is named in the driver's problem, with the cure", async function () {
    if (process.getuid?.() !== 0) return skipBecause(this, ONLY_ROOT);
    const { host } = await startHost("diskmesh-nobody-has-it");
    expect(host.drivers()[0]?.problem).to.match(/user diskmesh-nobody-has-it.*useradd --system/);
    await host.close();
  });

  it("a service that is root gives a driver without a user its default user, others its own", async () => {
    const { host, call } = await startHost(undefined, { userOfRoot: USER });
    const { user } = (await call("look", { files: [] })) as { user: string };
    expect(user.split("\t")[0]).to.equal(process.getuid?.() === 0 ? USER : String(process.getuid?.()));
    await host.close();
  });

  describe("a process that hid itself", () => {
    before(function () {
      const group = ControlGroup.create();
      void group?.remove();
      if (group === undefined) skipBecause(this, "no control group (cgroup v2) can be made here");
    });

    /** Returns the process, once nothing tells that it is of the driver. */
    async function hidden(escaped: Promise<unknown>): Promise<number> {
      const { pid } = (await escaped) as { pid: number };
      await eventually(() => expect(readFileSync(`/proc/${pid}/environ`, "latin1")).to.equal(""));
      return pid;
    }
    async function ends(pid: number): Promise<void> {
      try {
        await eventually(() => expect(isThere(pid)).to.equal(false));
      } finally {
        if (isThere(pid)) process.kill(pid, "SIGKILL");
      }
    }

    it("ends with its driver", async () => {
      const { host, call } = await startHost(undefined);
      const pid = await hidden(call("escape"));
      await host.close();
      await ends(pid);
    });

    it("of another user ends with its driver, and the driver cannot leave its control group", async function () {
      if (process.getuid?.() !== 0) return skipBecause(this, ONLY_ROOT);
      const { host, call } = await startHost(USER);
      const pid = await hidden(call("escape"));
      const { groupFolder } = (await call("look", { files: [] })) as { groupFolder: string };
      expect(await call("leave_group", { folder: dirname(groupFolder) })).to.equal("EACCES");
      await host.close();
      await ends(pid);
    });

    it("ends when its service, which was killed, starts again", async () => {
      const service = spawn(process.execPath, ["--input-type=module", "-e", serviceOf({})], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const { pid } = await saidBy(service);
      service.kill("SIGKILL");
      await once(service, "exit");
      await new DriverHost({ drivers: [], random: Math.random, log: silentLogger }).close();
      await ends(pid);
    });

    it("ends with a driver of a service that is not root, but may choose users and has a control group", async function () {
      if (process.getuid?.() !== 0) return skipBecause(this, ONLY_ROOT);
      skipWithout(this, "setpriv");
      const { host, call } = await startHost(undefined);
      const { groupFolder } = (await call("look", { files: [] })) as { groupFolder: string };
      await host.close();
      // A group as systemd makes for a unit with Delegate=yes, and the capabilities of systemd/drivers.conf.
      const group = join(dirname(groupFolder), `diskmesh-test-${process.pid}`);
      mkdirSync(group);
      for (const file of ["", "cgroup.procs", "cgroup.subtree_control"]) chownSync(join(group, file), 65_533, 65_533);
      const capabilities = "+setuid,+setgid,+kill";
      const rights = ["--reuid=65533", "--regid=65533", "--clear-groups", "--no-new-privs"];
      const lasting = [`--inh-caps=${capabilities}`, `--ambient-caps=${capabilities}`];
      const node = [process.execPath, "--input-type=module", "-e", serviceOf({ user: USER })];
      const args = [
        "-c",
        'echo $$ > "$0/cgroup.procs" && exec "$@"',
        group,
        "setpriv",
        ...rights,
        ...lasting,
        "--",
        ...node,
      ];
      const service = spawn("/bin/sh", args, { stdio: ["pipe", "pipe", "inherit"] });
      const { pid, look } = await saidBy(service);
      expect(look).to.include({
        ...{ user: "65534\t65534\t65534\t65534", groups: "", capabilities: "0000000000000000" },
        ...{ signal: "EPERM", noNewPrivileges: "1" },
      });
      expect(isThere(pid)).to.equal(true);
      service.stdin.end();
      await once(service, "exit");
      await ends(pid);
      await eventually(() => rmdirSync(group));
    });
  });
});
