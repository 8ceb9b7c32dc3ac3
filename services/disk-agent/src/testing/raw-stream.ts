import { type BlockIoRequest, type BlockIoResponse, DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import { createClient, type PartialOf, type TlsFiles } from "@diskmesh/rpc";
import { AsyncQueue } from "../block-io/async-queue.js";

type Request = PartialOf<typeof BlockIoRequest>;

/** Returns a holder's stream of raw messages. */
export function rawStream(address: string, tls: TlsFiles, deviceId: string) {
  const client = createClient(DiskAgentServiceDefinition, {
    address,
    tls,
    serverRole: "disk-agent",
    defaultDeadlineMs: 60_000,
  });
  const requests = new AsyncQueue<Request>();
  const answers = client.blockIo(requests)[Symbol.asyncIterator]();
  return {
    send: (operationId: number, operation: Request["operation"]) => void requests.push({ operationId, operation }),
    open: (sessionNumber: number, diskId = "disk-7") =>
      void requests.push({
        operationId: 0,
        operation: { $case: "open", value: { diskId, deviceId, sessionNumber } },
      }),
    next: async (): Promise<BlockIoResponse> => {
      const { value, done } = await answers.next();
      if (done) throw new Error("the stream has ended");
      return value;
    },
    failure: () =>
      answers.next().then(
        (next) => (next.done ? "ended" : `answered ${next.value.errno}`),
        (error) => error.name,
      ),
    close: () => {
      requests.end();
      client.close();
    },
  };
}
