import type { JsonObject } from "@diskmesh/domain";
import type * as z from "zod";
import type { MethodCall } from "./method.js";

/** A device of the driver's node, as `devices` returns it. */
export interface DriverDevice {
  readonly deviceId: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  /** True when the agent holds the device open, so that the device can be probed. */
  readonly attached: boolean;
}

/** A durable map of JSON values. */
interface DriverState {
  /** Returns the value; undefined for none. */
  get(key: string): unknown;
  /** Resolves once the value is durable; undefined deletes. Rejects beyond 64 KiB of state. */
  set(key: string, value: unknown): Promise<void>;
}

/** A call whose end nobody knows. */
interface CutOffCall {
  readonly method: string;
  readonly startedAt: Date;
}

/** The environment of a driver. Its process runs as the `user` of its config, or as the user of the service. */
export interface DriverEnvironment<Settings = unknown> {
  /** The configured settings, parsed by the driver's schema. */
  readonly settings: Settings;
  /** Id of the node that the driver runs on; empty in the director. */
  readonly nodeId: string;
  /**
   * A small map that survives the driver's process, the agent and the host: up to 64 KiB as JSON. In the director it is
   * empty, and nothing can be set.
   */
  readonly state: DriverState;
  /**
   * Calls of asynchronous methods that an earlier process of the driver had begun and that were cut off: it was killed,
   * or its agent or host ended. Told until a process has started with it.
   */
  readonly cutOff: readonly CutOffCall[];
  /** Returns the node's present devices; none in the director. */
  devices(): Promise<readonly DriverDevice[]>;
  /** Reads a block of a device through the agent's descriptor and returns the duration in ms. */
  probe(deviceId: string): Promise<number>;
  /** Sets a device's health to WARNING with the message; undefined clears the warning. */
  warnOf(deviceId: string, message: string | undefined): Promise<void>;
}

/**
 * The base class of drivers. A driver is the default export of its package. Its methods are the fields created by
 * `nodeMethod` and `driverMethod`, including inherited fields.
 */
export class Driver<Settings = unknown> {
  /** The name in paths: letters, digits, `-` and `_`. */
  static readonly driverName: string = "";
  static readonly description: string = "";
  /** The schema of the settings; undefined means that the driver takes none. */
  static readonly settings: z.ZodType | undefined = undefined;

  constructor(protected readonly environment: DriverEnvironment<Settings>) {}

  /** Called once before any method call. */
  start(): void | Promise<void> {}
}

/** A driver without declared methods: a single function handles every call. Deprecated; declare methods instead. */
export interface LegacyDriver {
  vendorPassthru?(method: string, args: JsonObject, call: MethodCall): unknown;
  driverVendorPassthru?(method: string, args: JsonObject, call: MethodCall): unknown;
}
