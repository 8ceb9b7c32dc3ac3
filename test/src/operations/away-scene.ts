import { symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import type { DatabaseProcess } from "@diskmesh/tablet/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { Clocks } from "../mesh/clocks.js";
import { Load } from "../mesh/load.js";
import { typeCommand } from "../mesh/type-command.js";
import type { DocumentedMesh, MachineName } from "./documented-mesh.js";
import type { Unit } from "./unit.js";

export const BLOCK_BYTES = 4_096;
export const PATIENCE = { timeoutMs: 180_000, everyMs: 1_000 };
export const CONTROLS = ["control-1", "control-2"] as const;
export type Control = (typeof CONTROLS)[number];
export const HOSTS = ["host-1", "host-2", "host-3"] as const;
/** One disk more than a host has drives. */
const DISK_NAMES = ["first", "second", "kept"];
/** Exit codes of the command. */
const [DONE, UNAVAILABLE] = [0, 3];

interface Shell {
  readonly folder: string;
  readonly variables: Readonly<Record<string, string>>;
}

/** A whole mesh in which a disk is read and written continuously while parts are taken away. */
export class AwayScene {
  #diskName = "";
  #io: Load | undefined;
  #nbd: NbdClient | undefined;
  #shell: Shell | undefined;

  constructor(
    private readonly mesh: DocumentedMesh,
    /** Undefined when the test did not start the database. */
    readonly database: DatabaseProcess | undefined,
  ) {}

  /** Gives the first instance a disk on another host's drive, and starts to read and write it. */
  async begin(): Promise<void> {
    const near: string[] = [];
    // Drives of the VM's own host are used first, so these disks fill them.
    for (const name of DISK_NAMES) {
      this.#diskName = name;
      await this.done(`diskmesh provide ${name} $INSTANCE --size 1MiB`);
      const { serving, holding } = await this.disk();
      if (serving !== holding) break;
      near.push(name);
    }
    if (near.length === DISK_NAMES.length) throw new Error("every disk is on a drive of the host that serves it");
    for (const name of near) {
      await this.done(`diskmesh detach ${name}`);
      await this.done(`diskmesh delete ${name}`);
    }
    await this.openDisk();
  }

  get diskName(): string {
    return this.#diskName;
  }

  async stopIo(): Promise<void> {
    await this.#io?.stop();
  }

  async end(): Promise<void> {
    await this.stopIo();
    await this.#nbd?.disconnect().catch(() => {});
  }

  /** Returns the host that serves the disk, the host of its drive, and its socket. */
  async disk(): Promise<{ readonly serving: MachineName; readonly holding: MachineName; readonly socket: string }> {
    const named: { diskName: string; diskCid: string }[] = JSON.parse(
      await this.done("diskmesh disks --dynamic --json"),
    );
    const cid = named.find(({ diskName }) => diskName === this.#diskName)?.diskCid ?? "";
    const disks: { diskId: string; parts: { copies: { deviceId: string }[] }[]; publication: { hostId: string } }[] =
      JSON.parse(await this.done("diskmesh disks --json"));
    const disk = disks.find(({ diskId }) => diskId === cid);
    const holding = HOSTS.find((host) => disk?.parts[0]?.copies[0]?.deviceId.startsWith(host));
    const serving = HOSTS.find((host) => host === disk?.publication.hostId);
    if (holding === undefined || serving === undefined) throw new Error(`the disk is nowhere: ${JSON.stringify(disk)}`);
    return { serving, holding, socket: this.file(serving, `var/lib/diskmesh-disk-agent/data/dynamic_disks/${cid}`) };
  }

  /** Opens the disk. `look` is called with its first bytes. */
  async openDisk(look?: (found: Buffer) => void): Promise<void> {
    const { socket } = await this.disk();
    // A link with a short path, because socket paths are limited.
    const link = join(temporaryFolder(), "disks");
    symlinkSync(dirname(socket), link);
    const nbd = await eventually(() => NbdClient.connect({ socketPath: join(link, basename(socket)) }), PATIENCE);
    this.#nbd = nbd;
    look?.(await nbd.read(0, BLOCK_BYTES));
    this.#io = new Load(async (number) => {
      const bytes = Buffer.alloc(BLOCK_BYTES, `round ${number}`);
      await nbd.write(0, bytes, { fua: true });
      expect((await nbd.read(0, BLOCK_BYTES)).equals(bytes)).to.equal(true);
    });
  }

  get nbd(): NbdClient {
    if (this.#nbd === undefined) throw new Error("no disk is open");
    return this.#nbd;
  }

  async ioGoesOn(): Promise<void> {
    await this.#io?.anotherRound();
    expect(this.#io?.failures).to.deep.equal([]);
  }

  /** Runs a command line on the machine `admin`, in a shell that keeps its variables. */
  async typed(line: string): Promise<{ readonly code: number; readonly output: string }> {
    this.#shell ??= await this.#shellOfAdmin();
    const { variables } = this.#shell;
    const [, ...args] = line.replace(/\$(\w+)/g, (_, name) => variables[name] ?? "").split(" ");
    const { code, out, err } = await typeCommand(args, variables, this.#shell.folder);
    return { code, output: `${out}${err}` };
  }

  async #shellOfAdmin(): Promise<Shell> {
    const admin = this.mesh.machine("admin");
    const printed = await admin.type('env | grep ^DISKMESH_\necho "INSTANCE=$INSTANCE"\n');
    const variables = [...printed.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]);
    return { folder: join(admin.folder, "home"), variables: Object.fromEntries(variables) };
  }

  async done(line: string): Promise<string> {
    const { code, output } = await this.typed(line);
    if (code !== DONE) throw new Error(`${line} ended with ${code}: ${output}`);
    return output;
  }

  /**
   * Expects that all command lines fail. They run concurrently, because each waits for its deadline; a successful one
   * is repeated.
   */
  async areRefused(lines: readonly string[]): Promise<void> {
    await Promise.all(
      lines.map(async (line) => {
        let answer = await this.typed(line);
        while (answer.code === DONE) answer = await this.typed(line);
        expect(answer.code, `${line}: ${answer.output}`).to.equal(UNAVAILABLE);
      }),
    );
  }

  /** Creates, attaches, detaches and deletes a disk, which involves every service. */
  async changesAreMade(): Promise<void> {
    await eventually(() => this.done("diskmesh provide probe $INSTANCE --size 1MiB"), PATIENCE);
    await eventually(() => this.done("diskmesh detach probe"), PATIENCE);
    await eventually(() => this.done("diskmesh delete probe"), PATIENCE);
  }

  /** Expects that a task waits while a part is away, and succeeds after `end` has brought the part back. */
  async taskWaits(end: () => Promise<void>): Promise<void> {
    const [, task] = /task (\d+)/.exec(await this.done("diskmesh provide probe $INSTANCE --size 1MiB --no-wait")) ?? [];
    const state = async (): Promise<string> => {
      const tasks = JSON.parse(await this.done("diskmesh tasks --recent --json")) as {
        taskId: number;
        state: string;
      }[];
      return tasks.find(({ taskId }) => taskId === Number(task))?.state ?? "";
    };
    expect(await state()).to.match(/QUEUED|PROCESSING/);
    await end();
    await eventually(async () => expect(await state()).to.equal("TASK_STATE_DONE"), PATIENCE);
    await this.changesAreMade();
  }

  clocks(): Clocks {
    return new Clocks(temporaryFolder());
  }

  file(machine: MachineName, path: string): string {
    return join(this.mesh.machine(machine).folder, path);
  }

  unit(machine: MachineName, service: string): Unit {
    return this.mesh.machine(machine).unit(`diskmesh-${service}`);
  }

  async statusOf(service: string, machine: Control): Promise<string> {
    return this.#stateIn((await this.typed("diskmesh status")).output, service, machine);
  }

  #stateIn(status: string, service: string, machine: Control): string {
    const address = `${this.mesh.address(machine)}:`;
    const line = status.split("\n").find((one) => one.startsWith(service) && one.includes(address));
    return line?.replace(/^\S+ +\S+ +/, "") ?? "";
  }

  async leader(service: string): Promise<{ readonly leader: Control; readonly standby: Control }> {
    return eventually(async () => {
      const { output } = await this.typed("diskmesh status");
      for (const leader of CONTROLS)
        if (/^serves/.test(this.#stateIn(output, service, leader)))
          return { leader, standby: leader === "control-1" ? "control-2" : "control-1" };
      throw new Error(`no ${service} leads`);
    }, PATIENCE);
  }

  /** Expects that a director reports NOT_SERVING because of the missing need. */
  async directorLacks(need: string): Promise<void> {
    await eventually(async () => {
      const { output } = await this.typed("diskmesh status");
      expect(output).to.match(new RegExp(`^director .*not serving.*lacks .*${need}`, "m"));
    }, PATIENCE);
  }

  async isUnavailable(host: MachineName): Promise<void> {
    await eventually(async () => {
      const unavailable = await this.done("diskmesh hosts --state-is unavailable");
      expect(unavailable).to.match(new RegExp(`^${host} `, "m"));
    }, PATIENCE);
  }

  async allServe(): Promise<void> {
    await this.done("diskmesh status --wait 180");
    await eventually(async () => {
      const online = await this.done("diskmesh hosts --state-is online");
      for (const host of HOSTS) expect(online).to.match(new RegExp(`^${host} `, "m"));
    }, PATIENCE);
  }
}
