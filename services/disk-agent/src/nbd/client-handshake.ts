import type { Socket } from "node:net";
import type { ByteReader } from "./byte-reader.js";
import {
  decodeOptionReplyHeader,
  encodeInfoRequest,
  encodeOption,
  HANDSHAKE,
  INFO,
  INIT_MAGIC,
  MAX_OPTION_BYTES,
  OPTION,
  OPTION_MAGIC,
  OPTION_REPLY_HEADER_BYTES,
  REPLY,
  TRANSMISSION,
} from "./protocol.js";

/** Bytes of the type, size and flags of an export. */
const EXPORT_INFO_BYTES = 12;

/** Facts of an export as the server sent them. */
export interface OpenedExport {
  readonly sizeBytes: number;
  /** Empty when the server has none. */
  readonly description: string;
  readonly isReadOnly: boolean;
}

/** Reads the server's greeting, and answers it. Throws when the server does not speak NBD. */
export async function greetServer(reader: ByteReader, socket: Socket): Promise<void> {
  const greeting = await reader.read(18);
  if (greeting.readBigUInt64BE(0) !== INIT_MAGIC || greeting.readBigUInt64BE(8) !== OPTION_MAGIC)
    throw new Error("the server does not speak NBD");
  const flags = Buffer.alloc(4);
  flags.writeUInt32BE(HANDSHAKE.FIXED_NEWSTYLE | HANDSHAKE.NO_ZEROES, 0);
  socket.write(flags);
}

/** Opens an export, after which requests follow. Throws when the server refuses it. */
export async function openExport(reader: ByteReader, socket: Socket, exportName: string): Promise<OpenedExport> {
  socket.write(encodeOption(OPTION.GO, encodeInfoRequest(exportName, [INFO.DESCRIPTION])));
  let sizeBytes: number | undefined;
  let description = "";
  let isReadOnly = false;
  for (;;) {
    const { reply, lengthBytes } = decodeOptionReplyHeader(await reader.read(OPTION_REPLY_HEADER_BYTES));
    if (lengthBytes > MAX_OPTION_BYTES)
      throw new Error(`the server sent a reply of ${lengthBytes} bytes: the limit is ${MAX_OPTION_BYTES}`);
    const data = await reader.read(lengthBytes);
    if (reply >= REPLY.ERR_UNSUP) throw new Error(`the server refused the export: ${data.toString()}`);
    const info = reply === REPLY.INFO ? infoTypeOf(data) : undefined;
    if (info === INFO.EXPORT) {
      sizeBytes = Number(data.readBigUInt64BE(2));
      if (!Number.isSafeInteger(sizeBytes)) throw new Error(`the server sent a size out of range: ${sizeBytes} bytes`);
      isReadOnly = (data.readUInt16BE(10) & TRANSMISSION.READ_ONLY) !== 0;
    }
    if (info === INFO.DESCRIPTION) description = data.subarray(2).toString();
    if (reply !== REPLY.ACK) continue;
    if (sizeBytes === undefined) throw new Error("the server did not send the export's size");
    return { sizeBytes, description, isReadOnly };
  }
}

/** Returns the type of a piece of information. Throws when the piece has another length than its type demands. */
function infoTypeOf(data: Buffer): number {
  const type = data.length < 2 ? undefined : data.readUInt16BE(0);
  if (type === undefined || (type === INFO.EXPORT && data.length !== EXPORT_INFO_BYTES))
    throw new Error(`the server sent malformed information of the export: ${data.length} bytes`);
  return type;
}
