import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** Takes what processes export as traces. */
export class TraceCollector {
  received = "";

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<TraceCollector> {
    const server = createServer((request, response) => {
      request.setEncoding("utf8").on("data", (text: string) => {
        collector.received += text;
      });
      request.on("end", () => response.end("{}"));
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const collector = new TraceCollector(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    return collector;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
