import type { Alert, Alerts } from "@diskmesh/domain";

/** Maximum alerts of a process. Each name is a constant of the code, and few are about one of many things. */
const MAX_ALERTS = 64;

/** Keeps the alerts that a process's log lines have begun and not ended. */
export class CurrentAlerts implements Alerts {
  readonly #current = new Map<string, Alert>();
  readonly #listeners: (() => void)[] = [];

  constructor(
    private readonly nowMs: () => number,
    /** Hides secrets in a text. */
    private readonly redacted: (text: string) => string = (text) => text,
  ) {}

  get current(): ReadonlyMap<string, Alert> {
    return this.#current;
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Begins the alert that the line names, if it names one. A repeated line keeps the alert's beginning. */
  noteBegin(fields: object, message: string): void {
    const name = nameIn(fields, "alert");
    if (name === undefined) return;
    const before = this.#current.get(name);
    if (before === undefined && this.#current.size >= MAX_ALERTS) return;
    this.#current.set(name, { why: this.redacted(message), sinceMs: before?.sinceMs ?? this.nowMs() });
    this.#tell();
  }

  /** Ends the alert that the line names, if it names one. */
  noteEnd(fields: object): void {
    const name = nameIn(fields, "alertEnded");
    if (name !== undefined && this.#current.delete(name)) this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

function nameIn(fields: object, field: "alert" | "alertEnded"): string | undefined {
  if (!(field in fields)) return undefined;
  const { [field]: name, alertOf } = fields as Readonly<Record<string, unknown>>;
  return alertOf === undefined ? String(name) : `${name} ${alertOf}`;
}
