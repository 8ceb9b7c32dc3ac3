/**
 * The CPI contract as seen by the executable. Written from BOSH's documents, without code of the dispatcher, so that it
 * tests the dispatcher.
 */

export interface Request {
  readonly method: string;
  readonly arguments: readonly unknown[];
  readonly api_version?: number;
  readonly context: Context;
}

/** Context of a request; contains the CPI's properties from the cpi-config. */
interface Context {
  readonly director_uuid: string;
  readonly request_id: string;
  readonly vm?: { readonly stemcell?: { readonly api_version?: number } };
  /** Folder of the CPI's state. */
  readonly state_folder: string;
  /** Highest CPI API version that this CPI supports; 2 by default. With 1 it lacks the info method. */
  readonly speaks_api_version?: number;
  readonly stemcell_formats?: readonly string[];
  /** Total capacity of the CPI's disks in MiB; 1 TiB by default. */
  readonly capacity_mb?: number;
  /** bosh-registry that stores agents' settings in API version 1. */
  readonly registry?: { readonly endpoint: string; readonly user: string; readonly password: string };
  readonly agent?: AgentProperties;
}

export interface AgentProperties {
  /** NATS connection for agents whose `env` has none, as in API version 1. */
  readonly mbus?: MbusSettings;
  /** Path of the agent program of a VM, e.g. a bosh-agent; by default the CPI's built-in agent. */
  readonly path?: string;
  /** Heartbeat interval of the built-in agent; 30,000 by default, like BOSH's agents. */
  readonly heartbeat_interval_ms?: number;
}

/** Connection of an agent to its director over NATS; `bosh.mbus` in `env`. */
export interface MbusSettings {
  readonly urls?: readonly string[];
  readonly cert?: { readonly ca: string; readonly certificate: string; readonly private_key: string };
}

/** Blobstore of an agent. The built-in agent uses only its certificate authorities, to upload logs. */
export interface BlobstoreSettings {
  readonly options?: { readonly tls?: { readonly cert?: { readonly ca?: string } } };
}

/** Fields of BOSH's agent settings document that are used here. */
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

/** Error in a CPI's answer to the director. */
export class CpiError extends Error {
  constructor(
    readonly type: string,
    message: string,
    readonly okToRetry = false,
  ) {
    super(message);
  }
}

/** Creates an error of `Bosh::Clouds`. */
export const cloudError = (type: string, message: string, okToRetry = false): CpiError =>
  new CpiError(`Bosh::Clouds::${type}`, message, okToRetry);

/** Returns whether the agent gets its settings from the bosh-registry, as in API version 1. */
export function usesRegistry(request: Request): boolean {
  return (request.api_version ?? 1) < 2 || (request.context.vm?.stemcell?.api_version ?? 1) < 2;
}

/** Answer that is printed for a request. */
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
