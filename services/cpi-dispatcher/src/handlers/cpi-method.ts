import { CallContext as CpiContext } from "@diskmesh/api/cpi";
import { type Cpi, type CpiCall, requestIdOfCall, stemcellVersionOf } from "@diskmesh/cpi";
import { type Identity, InvalidArgumentError, parseId, parseName, parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import type { Offered } from "../cpis/cpi-configs.js";
import type { ChosenCpi } from "../cpis/cpi-set.js";
import type { DirectorGeneration } from "../cpis/fence.js";
import { measured } from "../cpis/metrics.js";
import type { Wanted } from "../model/choice.js";
import type { CpiMethod } from "../model/methods.js";

type CpiAction<Request, Response> = (cpi: Cpi, request: Request, call: CpiCall, chosen: ChosenCpi) => Promise<Response>;

export interface ContextOnly {
  context: CpiContext | undefined;
}

/** The facts that choose a CPI, without the facts for stemcells. */
export type WantedByContext = Omit<Wanted, "method" | "stemcellFormats">;

/** Returns the handler of a CPI method: chooses the CPI and calls it. */
export function cpiMethod<Request extends ContextOnly, Response>(
  method: CpiMethod,
  act: CpiAction<Request, Response>,
): (context: DispatcherContext, request: Request, call: CallContext) => Promise<Response> {
  return (context, request, call) =>
    withCpis(context, request.context, call, async ({ set }, wanted, cpiCall) => {
      const { cpis } = await set.choose({ ...wanted, method, stemcellFormats: [] }, cpiCall);
      const [chosen] = cpis as [ChosenCpi];
      return measured(chosen.offered.name, method, () =>
        chosen.offered.run((cpi) => act(cpi, request, cpiCall, chosen)),
      );
    });
}

/** Runs a request with its CPIs, behind the director's fence and with its log forwarded. */
export async function withCpis<Response>(
  context: DispatcherContext,
  sent: CpiContext | undefined,
  call: CallContext,
  work: (offered: Offered, wanted: WantedByContext, cpiCall: CpiCall) => Promise<Response>,
): Promise<Response> {
  const director = directorOf(call.identity, sent);
  const said = sent ?? CpiContext.fromPartial({});
  const wanted: WantedByContext = {
    az: parseOptionalName("context.az", said.az) ?? "",
    azCpi: said.azCpi,
    recordedCpi: said.cpi,
    unknownId: said.unknownId,
    askOthers: said.askOthers,
    exceptCpis: said.exceptCpis,
  };
  const stemcell = parseVersion("context.stemcell_api_version", said.stemcellApiVersion);
  const requestId = said.requestId === "" ? call.requestId : parseName("context.request_id", said.requestId);
  const callId = parseOptionalName("context.call_id", said.callId) ?? "";
  const cpiCall = {
    deadlineAtMs: call.deadlineAtMs,
    requestId: requestIdOfCall(requestId, callId),
    directorId: said.directorId,
    stemcellApiVersion: stemcellVersionOf(stemcell),
    preferredApiVersion: parseVersion("context.preferred_api_version", said.preferredApiVersion),
  };
  const logId = parseOptionalName("context.log_id", said.logId) ?? "";
  // Looked up after the fence, so that a former director's call does not use a new director's config.
  const run = (signal: AbortSignal) =>
    context.log.during({ logId, directorId: said.directorId }, (onLogLine) =>
      work(context.configs.find(said.directorId, said.cpiConfigVersion), wanted, { ...cpiCall, signal, onLogLine }),
    );
  return director
    ? context.fence.run(director, call.signal, run, { requestId, callId })
    : context.fence.runUnfenced(call.signal, run);
}

/** Validates a director's id and generation. */
export function parseDirector(directorId: string, generation: number): DirectorGeneration {
  if (generation < 1)
    throw new InvalidArgumentError(
      `director_generation is ${generation}: give the generation of the director's tablet, which starts at 1`,
      { about: { field: "director_generation" } },
    );
  return { directorId: parseId("director_id", directorId), generation };
}

function directorOf(identity: Identity, context: CpiContext | undefined): DirectorGeneration | undefined {
  if (identity.role !== "director") return undefined;
  if (!context)
    throw new InvalidArgumentError("the request has no context: a director must give its id and generation", {
      about: { field: "context" },
    });
  return parseDirector(context.directorId, context.directorGeneration);
}

function parseVersion(field: string, version: number): number {
  if (version >= 0) return version;
  throw new InvalidArgumentError(`${field} is ${version}: it must not be negative`, { about: { field } });
}
