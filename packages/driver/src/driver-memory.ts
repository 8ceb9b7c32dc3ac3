import { isJsonObject, type JsonObject, problemAsJson, ResourceExhaustedError } from "@diskmesh/domain";

/** Durable documents of drivers, by the drivers' names. A write is durable once its promise resolves. */
export interface DriverStates {
  /** Resolves with undefined for a driver that has written nothing. */
  read(driver: string): Promise<JsonObject | undefined>;
  write(driver: string, state: JsonObject): Promise<void>;
}

/** A call of an asynchronous method that a driver has begun and not ended. */
export interface BegunCall {
  readonly method: string;
  /** In ms since 1970. */
  readonly atMs: number;
}

/** The durable part of a driver's memory on a node. */
interface Kept {
  readonly values: JsonObject;
  /** Keys are numbers, unique in the document. */
  readonly begun: Readonly<Record<string, BegunCall>>;
}

/** Limit of a driver's values as JSON, and of the length of a key. */
const MAX_STATE_BYTES = 65_536;
const MAX_KEY_LENGTH = 100;
/** Limit of the cut-off calls that a driver is told. */
const MAX_BEGUN = 100;

/**
 * The state of a driver, and its calls under way, across its processes. It is read once, and every change is written
 * before it counts. Without `states`, calls are remembered in this process only, and no state can be set.
 */
export class DriverMemory {
  readonly #states: DriverStates | undefined;
  #driver: string | undefined;
  #kept: Kept = { values: {}, begun: {} };
  #lastNumber = 0;
  #written: Promise<void> = Promise.resolve();
  /** Calls that the former process had begun, until a process that was told of them has started. */
  #cutOff: readonly string[] = [];

  constructor(states: DriverStates | undefined) {
    this.#states = states;
  }

  /** Returns what a new process of the driver is told. Rejects when the state cannot be read. */
  async open(driver: string): Promise<{ readonly values: JsonObject; readonly cutOff: readonly BegunCall[] }> {
    if (this.#driver === undefined) {
      const read = await this.#states?.read(driver);
      if (isJsonObject(read) && isJsonObject(read.values) && isJsonObject(read.begun))
        this.#kept = read as unknown as Kept;
      this.#lastNumber = Math.max(0, ...Object.keys(this.#kept.begun).map(Number));
      this.#driver = driver;
    }
    if (driver !== this.#driver) throw new TypeError(`the state is of driver ${this.#driver}, not of ${driver}`);
    const { values, begun } = this.#kept;
    this.#cutOff = Object.keys(begun);
    return { values, cutOff: Object.values(begun) };
  }

  /** Forgets the cut-off calls, because the process that was told of them has started. */
  async started(): Promise<void> {
    const cutOff = new Set(this.#cutOff);
    this.#cutOff = [];
    if (cutOff.size > 0) await this.#write((kept) => ({ ...kept, begun: without(kept.begun, cutOff) }));
  }

  /** Sets a value; undefined deletes it. Rejects a value that is no JSON, and a state beyond its limits. */
  async set(key: string, value: unknown): Promise<void> {
    if (this.#states === undefined) throw new Error("a driver has a state only in the agent of a node");
    const problem = value === undefined ? undefined : problemAsJson(value);
    if (problem !== undefined) throw new TypeError(`the value of ${key} is not JSON: ${problem}`);
    if (key.length > MAX_KEY_LENGTH) throw new TypeError(`a key of the state has up to ${MAX_KEY_LENGTH} characters`);
    await this.#write((kept) => {
      const values = { ...without(kept.values, new Set([key])), ...(value !== undefined && { [key]: value }) };
      if (Buffer.byteLength(JSON.stringify(values)) > MAX_STATE_BYTES)
        throw new ResourceExhaustedError(`the state of a driver has up to ${MAX_STATE_BYTES} bytes as JSON`);
      return { ...kept, values: values as JsonObject };
    });
  }

  /** Records that a call begins. Returns its number for `ended`. */
  async begun(call: BegunCall): Promise<string> {
    const number = String(++this.#lastNumber);
    await this.#write((kept) => {
      const oldest = Object.keys(kept.begun).slice(0, -MAX_BEGUN);
      return { ...kept, begun: { ...without(kept.begun, new Set(oldest)), [number]: call } };
    });
    return number;
  }

  /** Records that a call has ended, whatever its outcome. */
  async ended(number: string): Promise<void> {
    await this.#write((kept) => ({ ...kept, begun: without(kept.begun, new Set([number])) }));
  }

  /** Changes are made one after another, and count once they are written. */
  #write(change: (kept: Kept) => Kept): Promise<void> {
    const write = this.#written.then(async () => {
      const kept = change(this.#kept);
      if (this.#driver !== undefined) await this.#states?.write(this.#driver, kept as unknown as JsonObject);
      this.#kept = kept;
    });
    this.#written = write.catch(() => undefined);
    return write;
  }
}

function without<Value>(
  record: Readonly<Record<string, Value>>,
  names: ReadonlySet<string>,
): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(record).filter(([name]) => !names.has(name)));
}
