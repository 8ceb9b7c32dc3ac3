import { createConnection, createServer, type Server, type Socket } from "node:net";

/** A TCP proxy in front of a real server, whose connections a test can cut or delay. */
export class CuttableProxy {
  readonly #server: Server;
  readonly #pairs = new Set<[Socket, Socket]>();
  port = 0;

  private constructor(targetPort: number) {
    this.#server = createServer((inner) => {
      const outer = createConnection(targetPort, "127.0.0.1");
      const pair: [Socket, Socket] = [inner, outer];
      this.#pairs.add(pair);
      for (const socket of pair) {
        socket.on("error", () => undefined);
        socket.on("close", () => {
          this.#pairs.delete(pair);
          inner.destroy();
          outer.destroy();
        });
      }
      inner.pipe(outer);
      outer.pipe(inner);
    });
  }

  static async start(targetPort: number): Promise<CuttableProxy> {
    const proxy = new CuttableProxy(targetPort);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    const address = proxy.#server.address();
    if (typeof address !== "object" || address === null) throw new Error("the proxy has no port");
    proxy.port = address.port;
    return proxy;
  }

  /** Breaks every existing connection; new ones are accepted. */
  cut(): void {
    for (const [inner, outer] of this.#pairs) {
      inner.destroy();
      outer.destroy();
    }
  }

  /** Holds back answers on every existing connection, without breaking it. */
  holdAnswers(): void {
    for (const [inner, outer] of this.#pairs) outer.unpipe(inner);
  }

  close(): Promise<void> {
    this.cut();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}
