import type { CallContext as CpiContext } from "@diskmesh/api/cpi";
import { type Identity, InvalidArgumentError, parseId, parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { chooseCpi, type DispatcherContext } from "../context.js";
import type { Cpi, CpiCall } from "../cpi.js";
import type { DirectorGeneration } from "../fence.js";

type CpiAction<Request, Response> = (cpi: Cpi, request: Request, call: CpiCall) => Promise<Response>;

const NO_CONTEXT: CpiContext = { cpi: "", directorId: "", directorGeneration: 0, requestId: "", stemcellApiVersion: 0 };

/**
 * Makes the handler of a CPI method: it finds the CPI, and runs a director's call behind the fence. Operators, who may
 * only look, have no generation and pass.
 */
export function cpiHandler<Request extends { context: CpiContext | undefined }, Response>(
  context: DispatcherContext,
  act: CpiAction<Request, Response>,
): (request: Request, call: CallContext) => Promise<Response> {
  return async (request, call) => {
    const { cpi: name, directorId, requestId, stemcellApiVersion } = request.context ?? NO_CONTEXT;
    const cpi = chooseCpi(context, name);
    const run = (signal: AbortSignal) =>
      act(cpi, request, {
        signal,
        deadlineAtMs: call.deadlineAtMs,
        requestId: requestId === "" ? call.requestId : parseName("context.request_id", requestId),
        directorId,
        stemcellApiVersion,
      });
    const director = directorOf(call.identity, request.context);
    return director ? context.fence.run(director, call.signal, run) : run(call.signal);
  };
}

/** Narrows what a director says of itself. */
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
  if (!context) throw new InvalidArgumentError("the request has no context: a director must say which one it is");
  return parseDirector(context.directorId, context.directorGeneration);
}
