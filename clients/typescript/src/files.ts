import { bytesOf, concat, randomId } from "./codec.js";
import { TroupeError } from "./errors.js";
import { aborted, type Link, type RequestOptions } from "./link.js";
import type { FsCopyParams, FsEntry, FsRemoveParams, FsSetMetadataParams, FsWalkOptions, FsWalkResult } from "./wire.js";

const block = 256 << 10;
/** Blocks of a file on the wire at once. */
const blocks = 4;

/** Returns the file URI of an absolute path. */
export function fileUri(path: string): string {
  if (path.startsWith("file:")) return path;
  if (!path.startsWith("/")) throw new TroupeError("params", `the path ${JSON.stringify(path)} is relative: give an absolute path on the server`);
  return "file://" + encodeURI(path).replace(/[?#]/g, encodeURIComponent);
}

/**
 * Files of the server. Paths are absolute, or file URIs.
 *
 * A call that changes something and loses its answer to a cut fails with `lost`: the server cannot tell whether it was
 * done. `write` of data and all reads go on after a cut.
 */
export class Files {
  readonly #link: Link;
  #lastWatch = 0;
  #watches = new Map<number, { done: (changed: boolean) => void; failed: (error: Error) => void }>();

  /** @internal */
  constructor(link: Link) {
    this.#link = link;
  }

  /** Reads a file piece by piece, at most 1 MiB ahead. After a cut it goes on, unless the file has changed. */
  async *read(path: string, options?: RequestOptions & { offset?: number }): AsyncGenerator<Uint8Array, void, undefined> {
    let offset = options?.offset ?? 0;
    let first: FsEntry | undefined;
    for (;;) {
      const handleId = randomId();
      await this.#link.request("fs/open", { handleId, path: fileUri(path), mode: "read" }, { ...options, once: false });
      const on = this.#link.connection;
      const now = await this.stat(path, options);
      if (first && (first.size !== now.size || first.modifiedAtMs !== now.modifiedAtMs)) {
        throw new TroupeError("changed", `${path}: while the connection was lost, the file has changed`);
      }
      first ??= now;
      const ahead: Promise<{ chunk: Uint8Array; eof: boolean } | undefined>[] = [];
      let next = offset;
      try {
        for (;;) {
          while (ahead.length < blocks) {
            const one = this.#link.request("fs/readBlock", { handleId, offset: next, len: block }, { ...options, on });
            one.catch(() => {}); // an earlier block tells
            ahead.push(one);
            next += block;
          }
          const got = await (ahead.shift() as (typeof ahead)[number]);
          if (!got) return;
          offset += got.chunk.length;
          if (got.chunk.length > 0) yield got.chunk;
          if (got.eof) return;
          if (got.chunk.length < block) {
            next = offset;
            ahead.length = 0;
          }
        }
      } catch (error) {
        if (!lost(error) || this.#link.state.state === "closed") throw error;
      } finally {
        this.#link.request("fs/close", { handleId }, { on }).catch(() => {});
      }
    }
  }

  /** Reads a whole file, of at most maxBytes (1 GiB). */
  async readFile(path: string, options?: RequestOptions & { maxBytes?: number }): Promise<Uint8Array> {
    const most = options?.maxBytes ?? 1 << 30;
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of this.read(path, options)) {
      if ((size += part.length) > most) throw new TroupeError("tooLong", `${path}: the file has more than ${most} bytes`);
      parts.push(part);
    }
    return concat(parts);
  }

  /** Reads a whole file as text. */
  async readText(path: string, options?: RequestOptions & { maxBytes?: number }): Promise<string> {
    return new TextDecoder().decode(await this.readFile(path, options));
  }

  /**
   * Writes a file. Others see the old content, and then all of the new content at once. After a cut, a write of data begins
   * again; a write of a stream fails with `lost`, and the old content stays.
   */
  async write(path: string, content: string | Uint8Array | AsyncIterable<string | Uint8Array>, options?: RequestOptions): Promise<void> {
    if (typeof content !== "string" && !(content instanceof Uint8Array)) return this.#stream(path, content, options);
    const data = bytesOf(content);
    if (data.length <= block) {
      await this.#link.request("fs/writeFile", { path: fileUri(path), dataBase64: data }, { ...options, once: false });
      return;
    }
    for (;;) {
      try {
        return await this.#stream(path, [data], options);
      } catch (error) {
        if (!lost(error) || this.#link.state.state === "closed") throw error;
      }
    }
  }

  async #stream(path: string, content: Iterable<Uint8Array> | AsyncIterable<string | Uint8Array>, options: RequestOptions | undefined): Promise<void> {
    const handleId = randomId();
    await this.#link.request("fs/open", { handleId, path: fileUri(path), mode: "replace" }, { ...options, once: false });
    const on = this.#link.connection;
    const flying: Promise<unknown>[] = [];
    let offset = 0;
    for await (const part of content) {
      const data = bytesOf(part);
      for (let at = 0; at < data.length; at += block) {
        if (options?.signal?.aborted) throw aborted(options.signal);
        const chunk = data.subarray(at, at + block);
        const one = this.#link.request("fs/writeBlock", { handleId, offset, chunk }, { ...options, on });
        one.catch(() => {}); // the loop below, or the end, tells
        flying.push(one);
        offset += chunk.length;
        if (flying.length >= blocks) await flying.shift();
      }
    }
    await Promise.all(flying);
    await this.#link.request("fs/close", { handleId }, { ...options, on });
  }

  /** Describes a file; of a link, its target, unless follow is false. */
  stat(path: string, options?: RequestOptions & { follow?: boolean }): Promise<FsEntry> {
    return this.#link.request("fs/stat", { path: fileUri(path), follow: options?.follow ?? true }, options);
  }

  /** Lists a directory. */
  async list(path: string, options?: RequestOptions): Promise<FsEntry[]> {
    return (await this.#link.request("fs/list", { path: fileUri(path) }, options)).entries;
  }

  /** Lists everything below a directory. */
  walk(path: string, params: FsWalkOptions, options?: RequestOptions): Promise<FsWalkResult> {
    return this.#link.request("fs/walk", { path: fileUri(path), options: params }, options);
  }

  /**
   * Waits until a path in missing exists, or a path in present does not, also if so already. A change undone quickly may go
   * unnoticed. Up to 64 paths in all.
   */
  async changed(paths: { missing?: readonly string[]; present?: readonly string[] }, options?: RequestOptions): Promise<void> {
    const params = { missing: (paths.missing ?? []).map(fileUri), present: (paths.present ?? []).map(fileUri) };
    for (let changed = false; !changed; ) {
      const watchId = ++this.#lastWatch;
      const told = new Promise<boolean>((done, failed) => this.#watches.set(watchId, { done, failed }));
      told.catch(() => {}); // the request may fail first
      const abort = (): void => this.#watches.get(watchId)?.failed(aborted(options?.signal as AbortSignal));
      options?.signal?.addEventListener("abort", abort);
      try {
        await this.#link.request("fs/watchMissing", { ...params, watchId }, { ...options, once: true });
        changed = await told;
      } catch (error) {
        if (!lost(error) || this.#link.state.state === "closed") throw error;
      } finally {
        options?.signal?.removeEventListener("abort", abort);
        this.#watches.delete(watchId);
      }
    }
  }

  /** @internal A watch has ended with a change. */
  told(watchId: number): void {
    this.#watches.get(watchId)?.done(true);
  }

  /** @internal The watches ended with the last connection. error: the client has ended, too. */
  reconnected(error?: Error): void {
    for (const { done, failed } of this.#watches.values()) error ? failed(error) : done(false);
  }

  /** Returns the path without links. */
  async canonicalize(path: string, options?: RequestOptions): Promise<string> {
    return (await this.#link.request("fs/canonicalize", { path: fileUri(path) }, options)).path;
  }

  /** Makes a directory, with its parents unless recursive is false. */
  async makeDirectory(path: string, options?: RequestOptions & { recursive?: boolean }): Promise<void> {
    await this.#link.request("fs/createDirectory", { path: fileUri(path), recursive: options?.recursive ?? true }, options);
  }

  async remove(path: string, params?: Pick<FsRemoveParams, "recursive" | "force">, options?: RequestOptions): Promise<void> {
    await this.#link.request("fs/remove", { recursive: false, force: false, ...params, path: fileUri(path) }, options);
  }

  async rename(from: string, to: string, options?: RequestOptions): Promise<void> {
    await this.#link.request("fs/rename", { sourcePath: fileUri(from), destinationPath: fileUri(to) }, options);
  }

  async copy(from: string, to: string, params?: Pick<FsCopyParams, "recursive">, options?: RequestOptions): Promise<void> {
    await this.#link.request("fs/copy", { recursive: false, ...params, sourcePath: fileUri(from), destinationPath: fileUri(to) }, options);
  }

  /** Makes a link at path. target is as the link has it. */
  async symlink(target: string, path: string, options?: RequestOptions): Promise<void> {
    await this.#link.request("fs/symlink", { target, path: fileUri(path) }, options);
  }

  /** Sets the mode or the time of a file. */
  async setMetadata(path: string, params: Omit<FsSetMetadataParams, "path" | "sandbox">, options?: RequestOptions): Promise<void> {
    await this.#link.request("fs/setMetadata", { ...params, path: fileUri(path) }, options);
  }
}

function lost(error: unknown): boolean {
  return error instanceof TroupeError && error.kind === "lost";
}
