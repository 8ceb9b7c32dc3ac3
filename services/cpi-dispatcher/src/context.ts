import { NotFoundError, quoted } from "@diskmesh/domain";
import type { Cpi } from "./cpi.js";
import type { Fence } from "./fence.js";

/** A CPI as the dispatcher offers it. */
export interface OfferedCpi {
  readonly name: string;
  readonly type: string;
  readonly cpi: Cpi;
}

/** What every handler works with. */
export interface DispatcherContext {
  /** The first one is the default. */
  readonly cpis: readonly OfferedCpi[];
  readonly fence: Fence;
}

/** The CPI of that name, or the default one for the empty name. */
export function chooseCpi(context: DispatcherContext, name: string): Cpi {
  const found = name === "" ? context.cpis[0] : context.cpis.find((offered) => offered.name === name);
  if (found) return found.cpi;
  const names = context.cpis.map((offered) => offered.name).join(", ");
  throw new NotFoundError(`there is no CPI ${quoted(name)}: choose one of ${names}`);
}
