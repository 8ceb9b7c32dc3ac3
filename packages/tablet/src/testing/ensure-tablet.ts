import { AlreadyExistsError } from "@diskmesh/domain";
import { makeTablet } from "../make-tablet.js";

/** Makes the tablet that a service's config names, unless it exists. Services start with an existing tablet only. */
export async function ensureTablet({
  storage,
  name,
}: {
  readonly storage: string;
  readonly name: string;
}): Promise<void> {
  await makeTablet(storage, name).catch((error: unknown) => {
    if (!(error instanceof AlreadyExistsError)) throw error;
  });
}
