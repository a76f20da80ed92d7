// Uploads a model with its progress, which fetch() does not tell.
import { address, Problem, token } from './api';
import type { Failure, Inspection } from './types';

export interface Upload {
  done: Promise<Inspection>;
  cancel: () => void;
}

function mediaType(file: File): string {
  return /\.json$/i.test(file.name) ? 'application/json' : 'application/octet-stream';
}

export function upload(file: File, progress: (share: number) => void): Upload {
  const request = new XMLHttpRequest();
  const done = new Promise<Inspection>((resolve, reject) => {
    const name = file.name.replace(/\.(onnx|json|pb)$/i, '');
    request.open('POST', address(`v1/models?name=${encodeURIComponent(name)}`));
    request.setRequestHeader('Content-Type', mediaType(file));
    request.setRequestHeader('Accept', 'application/json');
    if (token.value !== '') request.setRequestHeader('Authorization', `Bearer ${token.value}`);
    request.responseType = 'json';
    request.upload.onprogress = (event) => progress(event.total > 0 ? event.loaded / event.total : 0);
    request.onerror = () =>
      reject(new Problem(0, 'NO_ANSWER', 'The upload broke off: the daemon may be stopped, or the network is away.'));
    request.onabort = () => reject(new Problem(0, 'CANCELLED', 'The upload was cancelled.'));
    request.onload = () => {
      if (request.status < 300) {
        resolve(request.response as Inspection);
        return;
      }
      const body = (request.response ?? {}) as Partial<Failure> & { request_id?: string };
      reject(
        new Problem(
          request.status,
          body.code ?? `HTTP_${request.status}`,
          body.detail ?? `The server answered with status ${request.status}.`,
          body.request_id ?? '',
          body.errors ?? [],
        ),
      );
    };
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}
