import { appendFileSync, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Child } from "@diskmesh/testkit";

/** Launcher of a unit's program, and translation of its paths. */
export interface UnitPlace {
  readonly folder: string;
  readonly launcher: readonly string[];
  /** Translates a path of the machine to a real path. */
  path(ofMachine: string): string;
}

const STOP_TIMEOUT_MS = 60_000;
const RESTART_AFTER_MS = 500;

/** A systemd service on a simulated machine, as its unit file says, without the hardening. */
export class Unit {
  readonly #settings: ReadonlyMap<string, readonly string[]>;
  /** Additional variables from the next start on. */
  environment: Readonly<Record<string, string>> = {};
  #child: Child | undefined;
  #isWanted = false;

  constructor(
    readonly name: string,
    unitFile: string,
    private readonly place: UnitPlace,
  ) {
    const dropIns = [`${unitFile.replace(/-[^/]*$/, "-")}.service.d`, `${unitFile}.d`].filter(existsSync);
    const more = dropIns.flatMap((folder) => readdirSync(folder).map((file) => join(folder, file)));
    this.#settings = settingsOf([unitFile, ...more].map((file) => readFileSync(file, "utf8")).join("\n"));
  }

  get isActive(): boolean {
    return this.#child !== undefined && this.#child.exit === undefined;
  }

  /** Folder of the credentials; it exists while the service runs. */
  get #credentials(): string {
    return this.place.path(`/run/credentials/${this.name}.service`);
  }

  get logFile(): string {
    return join(this.place.folder, `${this.name}.log`);
  }

  get logs(): string {
    return existsSync(this.logFile) ? readFileSync(this.logFile, "utf8") : "";
  }

  /** Starts the unit like `systemctl start`, which waits for a `oneshot` unit. Returns the error, or an empty text. */
  async start(): Promise<string> {
    this.#start();
    if (this.#words("Type")[0] !== "oneshot") return "";
    const { code } = (await this.#child?.exited) ?? { code: null };
    return code === 0 ? "" : `${this.name} ended with ${code}:\n${this.logs}`;
  }

  #start(): void {
    this.#isWanted = true;
    if (this.isActive) return;
    for (const name of this.#words("StateDirectory"))
      mkdirSync(this.place.path(`/var/lib/${name}`), { recursive: true });
    for (const credential of this.#words("LoadCredential")) {
      const [name = "", file = ""] = credential.split(":");
      mkdirSync(this.#credentials, { recursive: true });
      copyFileSync(this.place.path(file), join(this.#credentials, name));
    }
    const [command = "", ...args] = this.#words("ExecStart").map((word) => this.place.path(word));
    const environment = this.#words("Environment").map(
      (one) => one.replace(/^"|"$/g, "").split("=") as [string, string],
    );
    // Devices of device-mapper would outlive the machines of the test.
    const config = args[args.indexOf("--config") + 1] ?? "";
    if (/disk-agent/.test(config) && !readFileSync(config, "utf8").includes("engine: node"))
      appendFileSync(config, "engine: node\n");
    const env = { TMPDIR: this.place.folder, ...Object.fromEntries(environment), ...this.environment };
    const { launcher } = this.place;
    const child = new Child({ name: this.name, command, args, launcher, env, logFile: this.logFile });
    this.#child = child;
    void child.exited.then((exit) => this.#ended(child, exit));
  }

  /** Stops the unit like `systemctl stop`. */
  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /** Kills the unit, as a power failure does. It is not restarted automatically. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  signal(signal: NodeJS.Signals): void {
    if (this.isActive) this.#child?.signal(signal);
  }

  reload(): string {
    if (!this.isActive) return `${this.name} does not run`;
    this.signal("SIGHUP");
    return "";
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#isWanted = false;
    const child = this.#child;
    if (child === undefined || child.exit !== undefined) return;
    child.signal(signal);
    const late = delay(STOP_TIMEOUT_MS, "late", { ref: false });
    if ((await Promise.race([child.exited, late])) !== "late") return;
    child.signal("SIGKILL");
    await child.exited;
  }

  #ended(child: Child, { code }: Awaited<Child["exited"]>): void {
    if (child === this.#child) rmSync(this.#credentials, { recursive: true, force: true });
    const prevents = this.#words("RestartPreventExitStatus").includes(String(code));
    const restarts = ["always", "on-failure"].includes(this.#words("Restart")[0] ?? "no");
    if (!this.#isWanted || !restarts || prevents || child !== this.#child) return;
    setTimeout(() => {
      if (this.#isWanted && !this.isActive) this.#start();
    }, RESTART_AFTER_MS).unref();
  }

  #words(key: string): string[] {
    return (this.#settings.get(key) ?? []).flatMap((value) => value.split(/\s+/).filter(Boolean));
  }
}

function settingsOf(text: string): ReadonlyMap<string, readonly string[]> {
  const settings = new Map<string, string[]>();
  for (const line of text.replaceAll("\\\n", " ").split("\n")) {
    const [, key = "", value = ""] = /^([A-Za-z]+)=(.*)$/.exec(line) ?? [];
    // An empty value forgets the former ones.
    if (key !== "") settings.set(key, value === "" ? [] : [...(settings.get(key) ?? []), value]);
  }
  return settings;
}
