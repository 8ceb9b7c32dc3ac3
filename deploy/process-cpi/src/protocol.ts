/** The CPI contract from the executable's side, written after BOSH's documents and not after the dispatcher. */

export interface Request {
  readonly method: string;
  readonly arguments: readonly unknown[];
  readonly api_version?: number;
  readonly context: Context;
}

/** With the CPI's own properties, from the cpi-config. */
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
  /** Where settings of agents go in version 1. */
  readonly registry?: { readonly endpoint: string; readonly user: string; readonly password: string };
  readonly agent?: AgentProperties;
}

export interface AgentProperties {
  /** The agents' settings where `env` has none, as in version 1. */
  readonly mbus?: MbusSettings;
  /** The program that is a VM's agent, a bosh-agent; the CPI's own stands in where none is given. */
  readonly path?: string;
  /** The stand-in's interval in ms; 30,000 by default, as BOSH's agents have it. */
  readonly heartbeat_interval_ms?: number;
}

/** How an agent reaches its director; in `env` it is `bosh.mbus`. */
export interface MbusSettings {
  readonly urls?: readonly string[];
  readonly cert?: { readonly ca: string; readonly certificate: string; readonly private_key: string };
}

/** Where an agent's blobs are; of it the stand-in needs no more than by whom it knows who takes its logs. */
export interface BlobstoreSettings {
  readonly options?: { readonly tls?: { readonly cert?: { readonly ca?: string } } };
}

/** The agent settings document of BOSH, as far as it is needed. */
export interface Settings {
  readonly agent_id: string;
  readonly vm: { readonly name: string };
  readonly networks: Networks;
  readonly disks: { readonly persistent: Readonly<Record<string, unknown>> };
  readonly env: {
    readonly bosh?: { readonly mbus?: MbusSettings; readonly blobstores?: readonly BlobstoreSettings[] };
  };
}

export type Networks = Readonly<Record<string, { readonly ip?: string }>>;

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

/** Returns true when the agent gets its settings from the bosh-registry. */
export function usesRegistry(request: Request): boolean {
  return (request.api_version ?? 1) < 2 || (request.context.vm?.stemcell?.api_version ?? 1) < 2;
}

/** The answer to a request, as it is printed. */
export interface Answer {
  readonly result: unknown;
  readonly error: { readonly type: string; readonly message: string; readonly ok_to_retry: boolean } | null;
  readonly log: string;
}

export async function answerTo(work: () => unknown): Promise<Answer> {
  try {
    return { result: (await work()) ?? null, error: null, log: "" };
  } catch (error) {
    const { type, okToRetry } = error instanceof CpiError ? error : { type: "Unknown", okToRetry: false };
    const message = error instanceof Error ? error.message : String(error);
    return { result: null, error: { type, message, ok_to_retry: okToRetry }, log: "" };
  }
}
