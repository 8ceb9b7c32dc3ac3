import { execFile } from "node:child_process";
import { type Logger, messageOf } from "@diskmesh/domain";

const NOTIFY_TIMEOUT_MS = 10_000;
/** Notifications within the watchdog's time, so that one late notification ends no process. */
const PER_WATCHDOG_TIME = 4;
const US_PER_MS = 1_000;

/**
 * Notifies systemd of this process's state, as sd_notify(3) does. The program `systemd-notify` sends, because Node has
 * no Unix datagram sockets. Does nothing in a process that systemd did not start with `Type=notify`.
 */
export class ServiceManager {
  readonly #isAsked: boolean;
  readonly #watchdogMs: number;
  #timer: NodeJS.Timeout | undefined;
  #hasFailed = false;

  constructor(
    { NOTIFY_SOCKET = "", WATCHDOG_USEC = "" }: NodeJS.ProcessEnv,
    private readonly log: Logger,
  ) {
    this.#isAsked = NOTIFY_SOCKET !== "";
    this.#watchdogMs = Number(WATCHDOG_USEC) / US_PER_MS || 0;
  }

  /**
   * Reports that the service has started. From then on, systemd restarts the process when its event loop stands still
   * for `WatchdogSec=`.
   */
  started(): void {
    this.#notify("READY=1");
    if (!this.#isAsked || this.#watchdogMs <= 0) return;
    this.#timer = setInterval(() => this.#notify("WATCHDOG=1"), this.#watchdogMs / PER_WATCHDOG_TIME).unref();
  }

  stopping(): void {
    clearInterval(this.#timer);
    this.#notify("STOPPING=1");
  }

  #notify(state: string): void {
    if (!this.#isAsked) return;
    execFile("systemd-notify", [state], { timeout: NOTIFY_TIMEOUT_MS }, (error) => {
      if (error === null || this.#hasFailed) return;
      this.#hasFailed = true;
      this.log.warn({ state, error: messageOf(error) }, "systemd not notified: see that systemd-notify is on PATH");
    });
  }
}
