import type { ServiceProcess } from "@diskmesh/testkit";

const LOOK_EVERY_MS = 100;
/** Delay in ms before a restart, so that a process that cannot start does not occupy the machine. */
const RESTART_AFTER_MS = 500;
const LAST_LINES = 12;

const IS_UP = /"(?:leadership gained|standby mode entered|CPI service started|agent registered)"/;

/** The unexpected end of a process. */
export interface OwnExit {
  readonly at: string;
  readonly name: string;
  /** True when it had served or stood by before. */
  readonly wasUp: boolean;
  readonly how: string;
  readonly lastLines: string;
}

/** A service process that is restarted whenever it has ended, as by a supervisor. */
export class Supervised implements Disposable {
  readonly #timer: NodeJS.Timeout;
  readonly #onOwnExit: (exit: OwnExit) => void;
  #holds = 0;
  #wasKilled = false;
  #starting = false;
  #logsBefore: number;
  #lastDownMs = performance.now();
  starts = 1;

  constructor(
    readonly name: string,
    readonly process: ServiceProcess,
    onOwnExit: (exit: OwnExit) => void,
  ) {
    this.#onOwnExit = onOwnExit;
    this.#logsBefore = 0;
    this.#timer = setInterval(() => {
      if (!this.isUp) this.#lastDownMs = performance.now();
      void this.#look();
    }, LOOK_EVERY_MS);
  }

  /** True while its present run serves or stands by. */
  get isUp(): boolean {
    return this.process.exit === undefined && this.#holds === 0 && this.#wasUp();
  }

  get upForMs(): number {
    return this.isUp ? performance.now() - this.#lastDownMs : 0;
  }

  /** Kills the process. It stays away until the returned function is called. */
  async kill(): Promise<() => void> {
    this.#holds++;
    this.#wasKilled = true;
    await this.process.kill();
    let held = true;
    return () => {
      if (held) this.#holds--;
      held = false;
    };
  }

  /** Stops the process, and starts another program with that program's config. */
  async replace(next: Pick<ServiceProcess, "mainFile" | "config">): Promise<void> {
    this.#holds++;
    this.#wasKilled = true;
    try {
      if (this.process.exit === undefined) await this.process.stop();
      Object.assign(this.process, next);
    } finally {
      this.#holds--;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const { exit } = this.process;
    if (exit === undefined || this.#holds > 0 || this.#starting) return;
    this.#starting = true;
    try {
      if (!this.#wasKilled) {
        this.#onOwnExit({
          at: new Date().toISOString(),
          name: this.name,
          wasUp: this.#wasUp(),
          how: exit.signal ? `signal ${exit.signal}` : `exit code ${exit.code}`,
          lastLines: this.process.logs.trimEnd().split("\n").slice(-LAST_LINES).join("\n"),
        });
        await new Promise((resolve) => setTimeout(resolve, RESTART_AFTER_MS));
      }
      if (this.#holds > 0) return;
      this.#logsBefore = this.process.logs.length;
      this.#wasKilled = false;
      this.starts++;
      await this.process.start();
    } finally {
      this.#starting = false;
    }
  }

  #wasUp(): boolean {
    return IS_UP.test(this.process.logs.slice(this.#logsBefore));
  }
}
