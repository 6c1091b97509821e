import './base.css';
import './jobs.css';
import './job.css';
