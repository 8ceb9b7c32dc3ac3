/** The CPI contract from the executable's side, written after BOSH's documents and not after the dispatcher. */

export interface Request {
  readonly method: string;
  readonly arguments: readonly unknown[];
  readonly api_version?: number;
  readonly context: Context;
}

interface Context {
  readonly director_uuid: string;
  readonly request_id: string;
  readonly vm?: { readonly stemcell?: { readonly api_version?: number } };
  /** Where the CPI keeps its state. */
  readonly state_folder: string;
  /** The highest version that this CPI speaks; 2 by default. At 1 it has no info method. */
  readonly speaks_api_version?: number;
  readonly stemcell_formats?: readonly string[];
  /** All that its disks may hold together. */
  readonly capacity_mb?: number;
  /** What it does wrong, by method or "*". A file misbehave.json in the state folder says the same, and wins. */
  readonly misbehave?: Misbehaviour;
  /** Where settings of agents go in version 1. */
  readonly registry?: { readonly endpoint: string; readonly user: string; readonly password: string };
  /** What agents are told when `env` tells them nothing, as in version 1. */
  readonly agent?: { readonly mbus: MbusSettings };
  /** Makes hints objects with a number inside, as some CPIs do, instead of paths. */
  readonly hint?: "path" | "object";
  /** What such hints hold beside it, for the agent alone, which tells it when it cannot find the disk. */
  readonly hint_secrets?: object;
}

/** How an agent reaches its director; in `env` it is `bosh.mbus`. */
export interface MbusSettings {
  readonly urls?: readonly string[];
  readonly cert?: { readonly ca: string; readonly certificate: string; readonly private_key: string };
}

export type Misbehaviour = Readonly<Record<string, string>>;

/** An error for the director. */
export class CpiError extends Error {
  constructor(
    readonly type: string,
    message: string,
    readonly okToRetry = false,
  ) {
    super(message);
  }
}

/** One of `Bosh::Clouds`. */
export const cloudError = (type: string, message: string, okToRetry = false): CpiError =>
  new CpiError(`Bosh::Clouds::${type}`, message, okToRetry);

/** Whether the agent gets its settings from the bosh-registry. */
export function usesRegistry(request: Request): boolean {
  return (request.api_version ?? 1) < 2 || (request.context.vm?.stemcell?.api_version ?? 1) < 2;
}
