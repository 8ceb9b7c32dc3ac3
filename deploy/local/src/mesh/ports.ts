import { createServer } from "node:net";
import { parseHostPort, UnavailableError } from "@diskmesh/domain";
import type { MeshLayout } from "./layout.js";

/** Throws when a port of the mesh is in use. */
export async function checkPorts(layout: MeshLayout): Promise<void> {
  const taken: string[] = [];
  const metrics = [...layout.metricsAddresses].map(([name, address]) => [`metrics of ${name}`, address] as const);
  const all = [...layout.addresses, ["the director's HTTPS", layout.directorHttpsAddress] as const, ...metrics];
  for (const [name, address] of all) if (!(await isFree(address))) taken.push(`${address} (for ${name})`);
  if (taken.length > 0)
    throw new UnavailableError(
      `in use: ${taken.join(", ")}. Stop what listens there, or choose other ports: npm start -- --base-port N`,
    );
}

function isFree(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ ...parseHostPort("address", address) }, () => server.close(() => resolve(true)));
  });
}
