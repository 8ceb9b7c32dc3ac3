import type { CreatedStemcell, CreateStemcellRequest, CreateStemcellResponse } from "@diskmesh/api/cpi";
import type { CpiCall, NewStemcell } from "@diskmesh/cpi";
import { InvalidArgumentError, messageOf, NotImplementedError, quoted } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import type { ChosenCpi } from "../cpis/cpi-set.js";
import { endingEarly } from "../cpis/ending-early.js";
import { measured } from "../cpis/metrics.js";
import { withCpis } from "./cpi-method.js";

/**
 * Creates a stemcell with every matching CPI. The failure of a CPI is reported in its own entry and does not fail the
 * others.
 */
export function createStemcell(
  context: DispatcherContext,
  request: CreateStemcellRequest,
  call: CallContext,
): Promise<CreateStemcellResponse> {
  return withCpis(context, request.context, call, async ({ set }, wanted, cpiCall) => {
    const stemcell: NewStemcell = {
      imagePath: parseImagePath(request.imagePath),
      cloudProperties: request.cloudProperties ?? {},
      tags: request.tags ?? {},
    };
    const { stemcellFormats, exceptCpis } = request;
    const { kind, cpis } = await set.choose(
      { ...wanted, method: "create_stemcell", stemcellFormats, exceptCpis },
      cpiCall,
    );
    return { stemcells: await Promise.all(cpis.map((chosen) => make(chosen, stemcell, cpiCall, kind === "one"))) };
  });
}

/**
 * Creates the stemcell with a CPI. A CPI without create_stemcell needs no stemcell; that is an error only for a CPI
 * requested by name.
 */
async function make(
  chosen: ChosenCpi,
  stemcell: NewStemcell,
  call: CpiCall,
  byName: boolean,
): Promise<CreatedStemcell> {
  const cpi = chosen.recordedName;
  try {
    const stemcellCid = await measured(chosen.offered.name, "create_stemcell", () =>
      chosen.offered.run((one) => endingEarly(call, (bounded) => one.createStemcell(stemcell, bounded))),
    );
    return { cpi, stemcellCid, error: "" };
  } catch (error) {
    // The caller is gone, so the call fails as a whole.
    if (call.signal.aborted) throw error;
    if (error instanceof NotImplementedError && !byName) return { cpi, stemcellCid: "", error: "" };
    return { cpi, stemcellCid: "", error: messageOf(error) };
  }
}

function parseImagePath(path: string): string {
  if (/^\/[^\0\n]{1,4095}$/.test(path)) return path;
  throw new InvalidArgumentError(`image_path ${quoted(path)} is not an absolute path`, {
    about: { field: "image_path" },
  });
}
