import type { JsonObject } from "@diskmesh/domain";
import type * as z from "zod";
import type { MethodCall } from "./method.js";

/** A device of the node on which a driver runs. */
export interface DriverDevice {
  readonly deviceId: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  /** True when the agent holds the device open, so that it can be probed. */
  readonly attached: boolean;
}

/** The environment of a driver. Its process has the rights of the user of its service. */
export interface DriverEnvironment<Settings = unknown> {
  /** From the config of the service, as the driver's own schema made them. */
  readonly settings: Settings;
  /** The node; empty in the director. */
  readonly nodeId: string;
  /** The devices of the node as they are now. In the director there are none. */
  devices(): Promise<readonly DriverDevice[]>;
  /** Reads a block at some place of a device, through the descriptor that the agent holds; how long that took, in ms. */
  probe(deviceId: string): Promise<number>;
  /** Makes a device WARNING with that message, or takes the word back with undefined. */
  warnOf(deviceId: string, message: string | undefined): Promise<void>;
}

/**
 * A driver is a class that extends this one and is the default export of its package. Its methods are the fields that
 * `nodeMethod` and `driverMethod` made, those that it inherits included.
 */
export class Driver<Settings = unknown> {
  /** The name in paths: letters, digits, `-` and `_`. */
  static readonly driverName: string = "";
  static readonly description: string = "";
  /** The schema of the driver's settings; a driver without one takes none. */
  static readonly settings: z.ZodType | undefined = undefined;

  constructor(protected readonly environment: DriverEnvironment<Settings>) {}

  /** Called once before anything is asked of the driver. */
  start(): void | Promise<void> {}
}

/** A driver of the former kind: one function for every call. Declare methods instead. */
export interface LegacyDriver {
  vendorPassthru?(method: string, args: JsonObject, call: MethodCall): unknown;
  driverVendorPassthru?(method: string, args: JsonObject, call: MethodCall): unknown;
}
