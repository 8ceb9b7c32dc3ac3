import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

const USER = "registry-user";
const PASSWORD = "registry-password";

/**
 * A bosh-registry of API version 1, as BOSH documents it: it stores settings of VMs, which CPIs write and agents read.
 */
export class TestRegistry implements AsyncDisposable {
  readonly settings = new Map<string, string>();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      const vmCid = request.url?.match(/^\/instances\/([^/]+)\/settings$/)?.[1] ?? "";
      const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body));
      const credentials = Buffer.from(`${USER}:${PASSWORD}`).toString("base64");
      if (request.method !== "GET" && request.headers.authorization !== `Basic ${credentials}`)
        return answer(401, { status: "access_denied" });
      if (request.method === "PUT") {
        let text = "";
        for await (const part of request.setEncoding("utf8")) text += part;
        this.settings.set(vmCid, text);
        return answer(200, { status: "ok" });
      }
      if (request.method === "DELETE") {
        this.settings.delete(vmCid);
        return answer(200, { status: "ok" });
      }
      const settings = this.settings.get(vmCid);
      return settings === undefined ? answer(404, { status: "not_found" }) : answer(200, { status: "ok", settings });
    });
  }

  static async start(): Promise<TestRegistry> {
    const registry = new TestRegistry();
    await new Promise<void>((resolve) => registry.#server.listen(0, "127.0.0.1", resolve));
    return registry;
  }

  /** Properties of a CPI that uses this registry. */
  get properties(): { endpoint: string; user: string; password: string } {
    const { port } = this.#server.address() as AddressInfo;
    return { endpoint: `http://127.0.0.1:${port}`, user: USER, password: PASSWORD };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
