import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";

/**
 * The three messages of googleapis that `grpc-status-details-bin` carries, by hand: field numbers below are those of
 * google/rpc/status.proto, google/rpc/error_details.proto, google/protobuf/any.proto and google/protobuf/duration.proto.
 */
export interface ErrorInfo {
  readonly reason: string;
  readonly domain: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface StatusDetails {
  readonly code: number;
  readonly message: string;
  readonly errorInfo?: ErrorInfo | undefined;
  /** google.rpc.RetryInfo.retry_delay. */
  readonly retryAfterMs?: number | undefined;
}

const ERROR_INFO_URL = "type.googleapis.com/google.rpc.ErrorInfo";
const RETRY_INFO_URL = "type.googleapis.com/google.rpc.RetryInfo";

const VARINT = 0;
const DELIMITED = 2;
const tag = (field: number, wireType: number): number => (field << 3) | wireType;

/** Encodes google.rpc.Status: code = 1, message = 2, details = 3 (repeated Any). */
export function encodeStatusDetails(status: StatusDetails): Uint8Array {
  const writer = new BinaryWriter();
  writer.uint32(tag(1, VARINT)).int32(status.code);
  writer.uint32(tag(2, DELIMITED)).string(status.message);
  if (status.errorInfo) writeAny(writer, ERROR_INFO_URL, encodeErrorInfo(status.errorInfo));
  if (status.retryAfterMs !== undefined) writeAny(writer, RETRY_INFO_URL, encodeRetryInfo(status.retryAfterMs));
  return writer.finish();
}

// Any: type_url = 1, value = 2.
function writeAny(writer: BinaryWriter, typeUrl: string, value: Uint8Array): void {
  const any = new BinaryWriter().uint32(tag(1, DELIMITED)).string(typeUrl).uint32(tag(2, DELIMITED)).bytes(value);
  writer.uint32(tag(3, DELIMITED)).bytes(any.finish());
}

// ErrorInfo: reason = 1, domain = 2, metadata = 3 (a map: entries of key = 1 and value = 2).
function encodeErrorInfo(info: ErrorInfo): Uint8Array {
  const writer = new BinaryWriter();
  writer.uint32(tag(1, DELIMITED)).string(info.reason);
  writer.uint32(tag(2, DELIMITED)).string(info.domain);
  for (const [key, value] of Object.entries(info.metadata)) {
    const entry = new BinaryWriter().uint32(tag(1, DELIMITED)).string(key).uint32(tag(2, DELIMITED)).string(value);
    writer.uint32(tag(3, DELIMITED)).bytes(entry.finish());
  }
  return writer.finish();
}

// RetryInfo: retry_delay = 1 (Duration: seconds = 1, nanos = 2).
function encodeRetryInfo(retryAfterMs: number): Uint8Array {
  const duration = new BinaryWriter()
    .uint32(tag(1, VARINT))
    .int64(Math.floor(retryAfterMs / 1000))
    .uint32(tag(2, VARINT))
    .int32(Math.round(retryAfterMs % 1000) * 1_000_000);
  return new BinaryWriter().uint32(tag(1, DELIMITED)).bytes(duration.finish()).finish();
}

/** Decodes google.rpc.Status; details of other types are skipped. Throws when the bytes are no such message. */
export function decodeStatusDetails(bytes: Uint8Array): StatusDetails {
  let code = 0;
  let message = "";
  let errorInfo: ErrorInfo | undefined;
  let retryAfterMs: number | undefined;
  for (const { reader, key } of fieldsOf(bytes)) {
    if (key === tag(1, VARINT)) code = reader.int32();
    else if (key === tag(2, DELIMITED)) message = reader.string();
    else if (key === tag(3, DELIMITED)) {
      const { typeUrl, value } = decodeAny(reader.bytes());
      if (typeUrl === ERROR_INFO_URL) errorInfo = decodeErrorInfo(value);
      if (typeUrl === RETRY_INFO_URL) retryAfterMs = decodeRetryInfo(value);
    } else reader.skip(key & 7);
  }
  return { code, message, errorInfo, retryAfterMs };
}

function* fieldsOf(bytes: Uint8Array): Generator<{ reader: BinaryReader; key: number }> {
  const reader = new BinaryReader(bytes);
  while (reader.pos < reader.len) yield { reader, key: reader.uint32() };
}

function decodeAny(bytes: Uint8Array): { typeUrl: string; value: Uint8Array } {
  let typeUrl = "";
  let value: Uint8Array = new Uint8Array();
  for (const { reader, key } of fieldsOf(bytes)) {
    if (key === tag(1, DELIMITED)) typeUrl = reader.string();
    else if (key === tag(2, DELIMITED)) value = reader.bytes();
    else reader.skip(key & 7);
  }
  return { typeUrl, value };
}

function decodeErrorInfo(bytes: Uint8Array): ErrorInfo {
  let reason = "";
  let domain = "";
  const metadata: Record<string, string> = {};
  for (const { reader, key } of fieldsOf(bytes)) {
    if (key === tag(1, DELIMITED)) reason = reader.string();
    else if (key === tag(2, DELIMITED)) domain = reader.string();
    else if (key === tag(3, DELIMITED)) {
      const [name, value] = decodeEntry(reader.bytes());
      metadata[name] = value;
    } else reader.skip(key & 7);
  }
  return { reason, domain, metadata };
}

function decodeEntry(bytes: Uint8Array): [string, string] {
  let name = "";
  let value = "";
  for (const { reader, key } of fieldsOf(bytes)) {
    if (key === tag(1, DELIMITED)) name = reader.string();
    else if (key === tag(2, DELIMITED)) value = reader.string();
    else reader.skip(key & 7);
  }
  return [name, value];
}

function decodeRetryInfo(bytes: Uint8Array): number {
  let retryAfterMs = 0;
  for (const { reader, key } of fieldsOf(bytes)) {
    if (key !== tag(1, DELIMITED)) reader.skip(key & 7);
    else
      for (const duration of fieldsOf(reader.bytes())) {
        if (duration.key === tag(1, VARINT)) retryAfterMs += Number(duration.reader.int64()) * 1000;
        else if (duration.key === tag(2, VARINT)) retryAfterMs += duration.reader.int32() / 1_000_000;
        else duration.reader.skip(duration.key & 7);
      }
  }
  return retryAfterMs;
}
